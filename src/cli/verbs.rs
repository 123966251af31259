//! One file per verb: its arguments and `run`. Logic that needs a test belongs in the library.

/// Declares an enum of subcommands and runs the chosen one. The help of each is the comment on its arguments.
///
/// `query` before a verb: it changes nothing. `change`: its arguments say what it does. `("lab")` before both: only a
/// program with that feature has the verb.
macro_rules! verbs {
    ($name:ident { $($(#[$attribute:meta])? $(($feature:literal))? $kind:ident $verb:ident: $args:ty,)+ }) => {
        #[derive(Debug, clap::Subcommand)]
        pub enum $name {
            $($(#[$attribute])? $(#[cfg(feature = $feature)])? $verb($args),)+
        }

        impl $name {
            pub(crate) fn run(self) -> anyhow::Result<()> {
                match self {
                    $($(#[cfg(feature = $feature)])? $name::$verb(args) => args.run(),)+
                }
            }

            pub fn effect(&self) -> $crate::cli::effect::Effect {
                match self {
                    $($(#[cfg(feature = $feature)])? $name::$verb(args) => verbs!($kind args),)+
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
#[cfg(feature = "author")]
mod check;
mod completions;
mod confirm;
mod doctor;
#[cfg(feature = "lab")]
mod evaluate;
mod explain;
mod guard;
#[cfg(feature = "lab")]
mod link;
mod list;
mod load;
#[cfg(feature = "author")]
mod new;
mod older;
mod policy;
#[cfg(feature = "lab")]
mod report;
#[cfg(feature = "author")]
mod ring;
mod risk;
#[cfg(feature = "lab")]
mod run;
mod selection;
mod serve;
mod show;
pub mod signals;
mod sockets;
mod stand_by;
mod status;
#[cfg(feature = "lab")]
mod stop;
mod systemd;
mod top;
mod trace;
#[cfg(feature = "lab")]
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
    ("lab") change Run: run::Args,
    ("lab") query Report: report::Args,
    ("lab") change Evaluate: evaluate::Args,
    ("lab") change Link: Box<link::Args>,
    query Doctor: doctor::Args,
    ("author") change New: new::Args,
    ("author") query Check: check::Args,
    query Completions: completions::Args,
    ("lab") query Traffic: traffic::Args,
    change Guard: guard::Args,
    ("author") query Ring: ring::Args,
    change Assets: assets::Args,
});
