//! Takes all capabilities from this process, for good.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// A program that root starts gets the capabilities of the bounding set, so they go first.
pub(in crate::processes) fn drop_all() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // The kernel does not know it.
            Ok(()) | Err(Errno::INVAL) => {}
            // Only who has `CAP_SETPCAP` may. Who has not gains none either: a program could
            // give some, and `no_new_privs` forbids that.
            Err(Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    Ok(set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?)
}
