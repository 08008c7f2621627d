//! The story with names that the test chooses.

use icecore_format::records::{LeftOut, Omission, TargetKind};

use super::{Builder, session, story};

/// Makes the story so that every text of the recording ends with these characters.
pub fn named(ending: &str) -> Builder {
    let mut b = story();
    b.cgroup(5, 100, "/system.slice/build");
    b.left_out.push(LeftOut { image: 0, why: Omission::UNREADABLE, needed_bytes: 0, free_bytes: 0 });
    let mut session = session();
    (session.target, session.target_cgroups) = (TargetKind::CGROUPS, vec!["/system.slice/build".to_owned()]);
    let event = &mut session.events[0];
    let of_session = [
        &mut session.recorder,
        &mut session.host,
        &mut session.kernel_release,
        &mut session.kernel_version,
        &mut session.arch,
        &mut session.boot_id,
        &mut event.name,
    ];
    let labels = session.labels.iter_mut().flat_map(|label| [&mut label.key, &mut label.value]);
    of_session
        .into_iter()
        .chain(&mut session.command_line)
        .chain(&mut session.notes)
        .chain(labels)
        .chain(&mut session.target_cgroups)
        .chain(&mut b.strings)
        .for_each(|text| text.push_str(ending));
    b.session = Some(session);
    b
}
