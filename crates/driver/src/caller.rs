//! Finds which library called the CUDA driver: the first library on the stack that belongs neither
//! to CUDA nor to Stormlog.
//!
//! Finding the caller with `backtrace` and `dladdr` takes 15 ms in a process with PyTorch, most of
//! it for the names of functions. In this module the unwinder stops at the caller, after a few
//! frames, and addresses are looked up in a sorted list of the loaded libraries; the list is read
//! again when it lacks an address.

#![expect(
    unsafe_code,
    reason = "the C library and the unwinder pass libraries and stack frames to C callbacks"
)]

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::lock;

/// The largest number of stack frames that are looked at to find the caller of the driver.
const MOST_FRAMES: u32 = 64;

/// A loaded library with its range of addresses and its role.
#[derive(Clone, Debug)]
struct Module {
    start: usize,
    end: usize,
    name: Arc<str>,
    role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A library between the caller and the driver: CUDA itself, its tools, and the recorder.
    Between,
    /// Python's `ctypes`, which calls C functions for Python code.
    Ctypes,
    /// The Python interpreter.
    Interpreter,
    /// Any other library; the first of them on the stack is the caller.
    Caller,
}

/// The loaded libraries, sorted by address.
type Modules = Arc<Vec<Module>>;

static MODULES: Mutex<Option<Modules>> = Mutex::new(None);

/// Reads the list of loaded libraries; no lock of this module is held during the call, because the
/// loader takes a lock of its own.
fn read_again() -> Modules {
    let mut found: Vec<Module> = Vec::with_capacity(256);
    // SAFETY: `dl_iterate_phdr` calls `note` for each library with a pointer to `found`, which
    // outlives the call.
    unsafe {
        libc::dl_iterate_phdr(Some(note), (&raw mut found).cast());
    }
    let own = read_again as *const () as usize;
    for module in &mut found {
        if (module.start..module.end).contains(&own) {
            module.role = Role::Between;
        }
    }
    found.sort_unstable_by_key(|module| module.start);
    let found = Arc::new(found);
    *lock(&MODULES) = Some(found.clone());
    found
}

/// A callback that the C library calls for each loaded library.
unsafe extern "C" fn note(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the C library passes a valid description of a loaded library, and `found` is the list
    // of `read_again`, which nothing else uses during the call.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Module>>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the description of a loaded library contains the address and the number of its
    // program headers, which stay in memory.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = usize::try_from(info.dlpi_addr).unwrap_or(0);
    let code = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
    let ends = code.map(|header| {
        let start = base.saturating_add(usize::try_from(header.p_vaddr).unwrap_or(0));
        let size = usize::try_from(header.p_memsz).unwrap_or(0);
        (start, start.saturating_add(size))
    });
    let range = ends.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let Some((start, end)) = range else {
        return 0;
    };
    let path = if info.dlpi_name.is_null() {
        String::new()
    } else {
        // SAFETY: the name of a loaded library ends with a zero byte.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        name.to_string_lossy().into_owned()
    };
    // The loader lists the program itself with an empty name.
    let path = if path.is_empty() {
        let program = std::env::current_exe().unwrap_or_default();
        program.to_string_lossy().into_owned()
    } else {
        path
    };
    let (name, role) = described(&path);
    found.push(Module {
        start,
        end,
        name,
        role,
    });
    0
}

/// The name to show for a library, and whether the library can be the caller of the driver.
fn described(path: &str) -> (Arc<str>, Role) {
    const BETWEEN: [&str; 9] = [
        "libcuda.so",
        "libcudart",
        "libcupti",
        "libnvidia-",
        "libnvperf",
        "libc.so",
        "libgcc_s",
        "libpthread",
        "linux-vdso",
    ];
    let file = Path::new(path)
        .file_name()
        .map(|name| name.to_string_lossy());
    let file = file.unwrap_or_default();
    let role = if BETWEEN.iter().any(|start| file.starts_with(start)) {
        Role::Between
    } else if file.starts_with("libffi") || file.starts_with("_ctypes") {
        Role::Ctypes
    } else if file.starts_with("python") || file.starts_with("libpython") {
        Role::Interpreter
    } else {
        Role::Caller
    };
    (shown(path, &file).into(), role)
}

/// The name to show for a library: the package for an extension module of a package, the file name
/// for any other library.
fn shown<'a>(path: &'a str, file: &'a str) -> &'a str {
    let is_extension = file.contains(".cpython-") || file.ends_with(".abi3.so");
    let package = ["/site-packages/", "/dist-packages/"]
        .iter()
        .find_map(|folder| path.split_once(folder)?.1.split_once('/'));
    match package {
        Some((package, _)) if is_extension => package,
        _ => file,
    }
}

fn module_at(modules: &[Module], address: usize) -> Option<&Module> {
    let after = modules.partition_point(|module| module.start <= address);
    let module = modules.get(after.checked_sub(1)?)?;
    (address < module.end).then_some(module)
}

type UnwindContext = c_void;

/// Return codes of an unwinder callback: continue with the next frame, and stop.
const GO_ON: c_int = 0;
const STOP: c_int = 4;

// The stack unwinder of the C compiler, which Rust's own panics use too.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        step: unsafe extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut UnwindContext) -> usize;
}

#[derive(Default)]
struct Walk {
    modules: Modules,
    was_read_again: bool,
    frames: u32,
    through_ctypes: bool,
    found: Option<Arc<str>>,
}

impl Walk {
    /// Looks at one stack frame and returns whether the unwinder should continue.
    fn step(&mut self, address: usize) -> bool {
        self.frames += 1;
        if self.frames > MOST_FRAMES {
            return false;
        }
        if module_at(&self.modules, address).is_none() && !self.was_read_again {
            self.was_read_again = true;
            self.modules = read_again();
        }
        let Some(module) = module_at(&self.modules, address) else {
            // An address outside of all libraries is code that was generated at run time. A library
            // may have called that code, so the unwinder continues.
            return true;
        };
        match module.role {
            Role::Between => true,
            Role::Ctypes => {
                self.through_ctypes = true;
                true
            }
            Role::Interpreter => {
                let name = if self.through_ctypes {
                    "ctypes"
                } else {
                    "Python"
                };
                self.found = Some(name.into());
                false
            }
            Role::Caller => {
                self.found = Some(module.name.clone());
                false
            }
        }
    }
}

unsafe extern "C" fn on_frame(context: *mut UnwindContext, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its own context and the pointer to `walk` that the function
    // `library` gave it, and nothing else uses `walk` during the call.
    let (address, walk) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Walk>()) };
    // The unwinder reports the address after the call instruction, which may already belong to the
    // next library, so one is subtracted.
    if walk.step(address.saturating_sub(1)) {
        GO_ON
    } else {
        STOP
    }
}

/// The library that called the driver on this thread; `None` when the stack shows no caller.
pub(super) fn library() -> Option<Arc<str>> {
    let known = lock(&MODULES).clone();
    let mut walk = Walk {
        modules: known.unwrap_or_else(read_again),
        ..Walk::default()
    };
    // SAFETY: the unwinder calls `on_frame` with the pointer to `walk`, and `walk` outlives the
    // call. `on_frame` cannot panic: it indexes nothing and its arithmetic saturates.
    unsafe {
        _Unwind_Backtrace(on_frame, (&raw mut walk).cast());
    }
    walk.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_an_address_is_found() {
        let modules = read_again();
        let inside = module_at(&modules, library as *const () as usize).unwrap();
        assert_eq!(inside.role, Role::Between, "the recorder is no caller");
        let outside = module_at(&modules, libc::strlen as *const () as usize);
        assert!(outside.is_none_or(|module| module.start != inside.start));
        assert!(module_at(&modules, 1).is_none());
    }

    #[test]
    fn the_first_frame_of_a_library_that_is_not_between_is_the_caller() {
        let module = |start, path: &str| {
            let (name, role) = described(path);
            let end = start + 0x100;
            Module {
                start,
                end,
                name,
                role,
            }
        };
        let modules = Arc::new(vec![
            module(0x1000, "/usr/lib/libcuda.so.1"),
            module(0x2000, "/x/site-packages/nvidia/cu13/lib/libcudart.so.13"),
            module(0x3000, "/x/site-packages/nvidia/cu13/lib/libcublas.so.13"),
            module(0x4000, "/usr/lib/libffi.so.8"),
            module(0x5000, "/usr/bin/python3.12"),
        ]);
        let walked = |addresses: &[usize]| {
            let mut walk = Walk {
                modules: modules.clone(),
                was_read_again: true,
                ..Walk::default()
            };
            let _ = addresses.iter().all(|&address| walk.step(address));
            walk.found.as_deref().map(str::to_owned)
        };
        let found = walked(&[0x1010, 0x2010, 0x3010, 0x5010]);
        assert_eq!(found.as_deref(), Some("libcublas.so.13"));
        assert_eq!(walked(&[0x1010, 0x4010, 0x5010]).as_deref(), Some("ctypes"));
        assert_eq!(walked(&[0x1010, 0x9000]), None);
        assert_eq!(walked(&[0x1010; 100]), None);
    }

    #[test]
    fn extension_modules_have_the_name_of_their_package() {
        let name = |path: &str| described(path).0.to_string();
        let folder = "/x/lib/python3.12/site-packages";
        let extension = format!("{folder}/cupy_backends/cuda/api/runtime.cpython-312-x86_64.so");
        assert_eq!(name(&extension), "cupy_backends");
        assert_eq!(
            name(&format!("{folder}/torch/lib/libc10_cuda.so")),
            "libc10_cuda.so"
        );
        assert_eq!(
            name("/home/u/kernels.cpython-312-x86_64.so"),
            "kernels.cpython-312-x86_64.so"
        );
    }

    #[test]
    fn a_walk_over_this_stack_ends() {
        // All code of the test program counts as the recorder's, and below it are only frames of
        // the C library, so no caller is found.
        assert_eq!(library(), None);
    }
}
