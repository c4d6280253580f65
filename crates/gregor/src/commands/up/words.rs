//! What a person who waits for a control plane gets to read.

use local::control_plane::Event;

/// An event in words.
pub(crate) fn sentence(event: &Event) -> String {
    match event {
        Event::Started { component, pid } => format!("{component} was started (process {pid})"),
        Event::TakenOver { component, pid } => {
            format!("{component} is still running (process {pid}) and is adopted")
        }
        Event::Replacing { component, pid } => {
            format!("{component} of an earlier run (process {pid}) is replaced")
        }
        Event::PortMoved { component, from, to } => {
            format!("port {from} is taken by another program, {component} moves to {to}")
        }
        Event::Ready { component, after } => {
            format!("{component} is ready ({:.1} s)", after.as_secs_f64())
        }
        Event::Died { component, pause } => {
            format!("{component} has exited and is restarted in {:.1} s", pause.as_secs_f64())
        }
        Event::Stopping { component } => format!("{component} is stopped"),
        // Whatever a later version reports is worth a line.
        other => format!("{other:?}"),
    }
}
