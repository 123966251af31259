//! One file per verb: its arguments and `run`. Logic that needs a test belongs in the library.

/// Declares an enum of subcommands and runs the chosen one. The help of each is the comment on its arguments.
///
/// `query` before a verb: it changes nothing. `change`: its arguments say what it does.
macro_rules! verbs {
    ($name:ident { $($(#[$attribute:meta])? $kind:ident $verb:ident: $args:ty,)+ }) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum $name {
            $($(#[$attribute])? $verb($args),)+
        }

        impl $name {
            pub fn run(self) -> anyhow::Result<()> {
                match self {
                    $($name::$verb(args) => args.run(),)+
                }
            }

            pub fn effect(&self) -> $crate::cli::effect::Effect {
                match self {
                    $($name::$verb(args) => verbs!($kind args),)+
                }
            }
        }
    };
    (query $args:ident) => {{
        let _ = $args;
        $crate::cli::effect::Effect::Query
    }};
    (change $args:ident) => { $args.effect() };
}

mod apply;
mod assets;
pub mod capabilities;
mod check;
mod completions;
mod confirm;
mod doctor;
mod explain;
mod guard;
mod inside;
mod link;
mod list;
mod load;
mod new;
mod older;
mod policy;
mod report;
mod ring;
mod risk;
mod run;
mod selection;
mod serve;
mod show;
pub mod signals;
mod sockets;
mod stand_by;
mod status;
mod systemd;
mod top;
mod trace;
mod traffic;
mod trials;
mod unload;
mod upgrade;
mod watched;

// In the order in which a newcomer needs them.
verbs!(Command {
    query List: list::Args,
    query Show: show::Args,
    change Load: load::Args,
    change Confirm: confirm::Args,
    change Unload: unload::Args,
    query Status: status::Args,
    change Apply: apply::Args,
    change Policy: policy::Args,
    query Explain: explain::Args,
    change Upgrade: upgrade::Args,
    change Rollback: upgrade::Rollback,
    query Sockets: sockets::Args,
    query Trace: trace::Args,
    query Top: top::Args,
    query Serve: serve::Args,
    change Run: run::Args,
    query Report: report::Args,
    change Link: Box<link::Args>,
    query Doctor: doctor::Args,
    change New: new::Args,
    query Check: check::Args,
    query Completions: completions::Args,
    query Traffic: traffic::Args,
    change Guard: guard::Args,
    change Inside: inside::Args,
    query Ring: ring::Args,
    change Assets: assets::Args,
});
