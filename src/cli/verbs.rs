//! One file per verb: its arguments and `run`. Logic that needs a test belongs in the library.

/// Declares an enum of subcommands and runs the chosen one. The help of each is the comment on its arguments.
macro_rules! verbs {
    ($name:ident { $($(#[$attribute:meta])? $verb:ident: $args:ty,)+ }) => {
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
        }
    };
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
mod policy;
mod report;
mod ring;
mod risk;
mod run;
mod selection;
mod serve;
mod show;
mod signals;
mod sockets;
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
    List: list::Args,
    Show: show::Args,
    Load: load::Args,
    Confirm: confirm::Args,
    Unload: unload::Args,
    Status: status::Args,
    Apply: apply::Args,
    Policy: policy::Args,
    Explain: explain::Args,
    Upgrade: upgrade::Args,
    Rollback: upgrade::Rollback,
    Sockets: sockets::Args,
    Trace: trace::Args,
    Top: top::Args,
    Serve: serve::Args,
    Run: run::Args,
    Report: report::Args,
    Link: Box<link::Args>,
    Doctor: doctor::Args,
    New: new::Args,
    Check: check::Args,
    Completions: completions::Args,
    Traffic: traffic::Args,
    Guard: guard::Args,
    Inside: inside::Args,
    Ring: ring::Args,
    Assets: assets::Args,
});
