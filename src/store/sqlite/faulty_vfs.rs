//! Lets SQLite's writes and syncs fail, for tests.

#![expect(unsafe_code, reason = "SQLite's file system is a table of C functions")]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock};

use rusqlite::ffi;

use crate::sync;

pub(super) const NAME: &str = "faulty";
const C_NAME: &CStr = c"faulty";

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Writing, because the disk is full.
    NoSpace,
    /// Writing, because the disk is broken.
    WriteError,
    /// Syncing.
    SyncError,
}

/// Which fault is to come, and after how many calls that succeed.
static PLAN: Mutex<Option<(Fault, u32)>> = Mutex::new(None);

/// One test at a time uses the faults.
static TURN: Mutex<()> = Mutex::new(());

static ORIGINAL: OnceLock<Original> = OnceLock::new();

/// The tables of methods that were met, each with our copy of it. SQLite has another for
/// databases than for their logs; all of them write and sync by the same functions.
static TABLES: Mutex<Vec<Table>> = Mutex::new(Vec::new());
static METHODS: OnceLock<ffi::sqlite3_io_methods> = OnceLock::new();

struct Original(*mut ffi::sqlite3_vfs);

struct Table {
    original: *const ffi::sqlite3_io_methods,
    own: *const ffi::sqlite3_io_methods,
}

// SAFETY: SQLite keeps the tables for as long as the process lives, and never changes them.
unsafe impl Send for Original {}
// SAFETY: as above.
unsafe impl Sync for Original {}
// SAFETY: as above.
unsafe impl Send for Table {}

pub(super) struct Faults(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Faults {
    pub(super) fn install() -> Self {
        let guard = sync::lock(&TURN);
        ORIGINAL.get_or_init(|| {
            // SAFETY: the default file system is there from the first call on; ours is a copy
            // of it that is never freed.
            unsafe {
                ffi::sqlite3_initialize();
                let original = ffi::sqlite3_vfs_find(ptr::null());
                let mut own = ptr::read(original);
                own.zName = C_NAME.as_ptr();
                own.xOpen = Some(open);
                own.pNext = ptr::null_mut();
                ffi::sqlite3_vfs_register(Box::leak(Box::new(own)), 0);
                Original(original)
            }
        });
        Self(guard)
    }

    /// After so many calls that succeed, all fail until `clear`.
    #[expect(clippy::unused_self, reason = "only who holds the guard may plan")]
    pub(super) fn plan(&self, fault: Fault, after: u32) {
        *sync::lock(&PLAN) = Some((fault, after));
    }

    #[expect(clippy::unused_self, reason = "only who holds the guard may plan")]
    pub(super) fn clear(&self) {
        *sync::lock(&PLAN) = None;
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Whether this call fails.
fn fails(is_it: impl Fn(Fault) -> bool) -> Option<Fault> {
    let mut plan = sync::lock(&PLAN);
    let (fault, left) = plan.as_mut().filter(|(fault, _)| is_it(*fault))?;
    if *left == 0 {
        return Some(*fault);
    }
    *left -= 1;
    None
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let original = ORIGINAL.get().expect("it is registered behind the original").0;
    // SAFETY: SQLite's own arguments go to SQLite's own function, and the methods of an
    // open file are one of its tables.
    unsafe {
        let code = (*original).xOpen.expect("it opens files")(original, name, file, flags, out);
        if code == ffi::SQLITE_OK && !(*file).pMethods.is_null() {
            (*file).pMethods = with_faults((*file).pMethods);
        }
        code
    }
}

/// # Safety
///
/// `original` is a table of SQLite's.
unsafe fn with_faults(original: *const ffi::sqlite3_io_methods) -> *const ffi::sqlite3_io_methods {
    let mut tables = sync::lock(&TABLES);
    if let Some(known) = tables.iter().find(|table| table.original == original) {
        return known.own;
    }
    // SAFETY: promised by the caller.
    let mut own = unsafe { ptr::read(original) };
    // SAFETY: promised by the caller.
    METHODS.get_or_init(|| unsafe { ptr::read(original) });
    own.xWrite = Some(write);
    own.xSync = Some(sync_file);
    let own: &'static _ = Box::leak(Box::new(own));
    tables.push(Table { original, own });
    own
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    match fails(|fault| fault != Fault::SyncError) {
        Some(Fault::NoSpace) => ffi::SQLITE_FULL,
        Some(_) => ffi::SQLITE_IOERR_WRITE,
        None => {
            let methods = METHODS.get().expect("the file is open");
            // SAFETY: SQLite's own arguments go to SQLite's own function.
            unsafe { methods.xWrite.expect("it writes")(file, bytes, amount, offset) }
        }
    }
}

unsafe extern "C" fn sync_file(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    if fails(|fault| fault == Fault::SyncError).is_some() {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    let methods = METHODS.get().expect("the file is open");
    // SAFETY: SQLite's own arguments go to SQLite's own function.
    unsafe { methods.xSync.expect("it syncs")(file, flags) }
}
