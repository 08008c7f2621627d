//! Remedies that are possible where the recorder runs.

use icecore_text::path;

use super::facts::{Capability, Facts};

/// Returns a command that only root may run.
pub(super) fn as_root(facts: &Facts, command: &str) -> String {
    if facts.rights.is_root { command.to_owned() } else { format!("sudo {command}") }
}

/// Returns the command that sets settings of the kernel.
pub(super) fn sysctl(facts: &Facts, settings: &str) -> String {
    if facts.settings.are_read_only || !facts.place.is_first_user_namespace {
        format!("on the host: sudo sysctl {settings}")
    } else {
        as_root(facts, &format!("sysctl {settings}"))
    }
}

/// Returns how the recorder gets capabilities that it has not.
pub(super) fn capabilities(facts: &Facts) -> String {
    let rights = &facts.rights;
    let lacking: Vec<Capability> =
        Capability::WANTED.into_iter().filter(|wanted| !rights.has(*wanted)).collect();
    let listed = |each: &dyn Fn(&Capability) -> String, between: &str| {
        lacking.iter().map(each).collect::<Vec<_>>().join(between)
    };
    let program = path::word(&rights.program.to_string_lossy());
    if !facts.place.is_first_user_namespace {
        return "run it outside of the user namespace, where capabilities count for the whole machine"
            .to_owned();
    }
    if lacking.iter().any(|capability| rights.bounding & capability.bit() == 0) {
        if facts.place.container.is_some() {
            let added = listed(&|capability| format!("--cap-add={}", capability.0), " ");
            return format!("start the container with {added}");
        }
        let names = listed(&|capability| format!("CAP_{}", capability.0), " ");
        return format!(
            "let what starts it leave these in the bounding set (a service of systemd: CapabilityBoundingSet=): {names}"
        );
    }
    if rights.gains_none {
        return "start it without no_new_privs (systemd: NoNewPrivileges=no; Kubernetes: allowPrivilegeEscalation: true)"
            .to_owned();
    }
    if rights.is_granted_nothing {
        return format!(
            "sudo {program} …; or copy it to a file system that is not mounted with `nosuid`, and use setcap there"
        );
    }
    let all = Capability::WANTED.map(|wanted| format!("cap_{}", wanted.0.to_lowercase())).join(",");
    as_root(facts, &format!("setcap {all}+ep {program}"))
}
