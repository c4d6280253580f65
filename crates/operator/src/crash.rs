//! One act per life: a switch for tests, with which the process ends itself after every act.
//!
//! Off, it does nothing at all. On, the process is gone, as by `kill -9`, right after each write that changed
//! something. A scenario that is lived so crosses every boundary at which a crash could hurt.

/// Whether the process outlives its acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrashSwitch {
    /// It does.
    #[default]
    Off,
    /// It ends after the first.
    OneActPerLife,
}

impl CrashSwitch {
    /// Whether it is on.
    #[must_use]
    pub fn is_on(self) -> bool {
        match self {
            CrashSwitch::Off => false,
            CrashSwitch::OneActPerLife => true,
        }
    }

    /// An act was done, or may have been done.
    pub fn acted(self, what: &str) {
        match self {
            CrashSwitch::Off => {}
            CrashSwitch::OneActPerLife => end(what),
        }
    }
}

fn end(what: &str) -> ! {
    // A test counts lives and reads what each was for; the line goes out whole before the end.
    eprintln!("one act per life: {what}");
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    // The signal cannot be held off; this is for the compiler.
    std::process::abort()
}
