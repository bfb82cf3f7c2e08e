//! Receives CUPTI's callbacks for the driver functions that allocate and free memory.
//!
//! The CUPTI library comes with PyTorch or the CUDA toolkit and is loaded at run time. Driver
//! functions are looked up by name, because their numbers differ between versions of CUPTI; their
//! parameters are fixed by the driver's interface.

#![expect(
    unsafe_code,
    reason = "functions of CUPTI, a C library, are looked up by name and take pointers"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use super::caller;
use super::holdings::{self, Block, Key, Kind};
use super::questions::DESK;
use crate::lock;

const DRIVER_API: u32 = 1;
/// CUPTI gives each function of the driver a number. Only numbers below this one are searched for
/// the functions in [`FUNCTIONS`].
const MOST_FUNCTIONS: u32 = 2048;
const ENTER: u32 = 0;
const EXIT: u32 = 1;
/// The smallest allocation, in bytes, for which the line of Python is looked up.
const SMALLEST_WITH_LINE: u64 = 1 << 20;
/// The flags `CUDA_ARRAY3D_SPARSE` and `CUDA_ARRAY3D_DEFERRED_MAPPING`, which mean that a CUDA
/// array has no memory of its own.
const WITHOUT_MEMORY: u32 = 0x40 | 0x80;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const ON_DEVICE: c_int = 1;

type Result = c_int;
type Subscriber = *mut c_void;
type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const CallbackData);

/// The structure `CUpti_CallbackData` that CUPTI passes to a callback.
#[repr(C)]
struct CallbackData {
    site: u32,
    function_name: *const c_char,
    parameters: *const c_void,
    return_value: *const c_int,
    symbol_name: *const c_char,
    context: *mut c_void,
    context_uid: u32,
    correlation_data: *mut u64,
    correlation_id: u32,
}

/// The functions of the loaded CUPTI library that this module calls.
struct Library {
    subscribe: unsafe extern "C" fn(*mut Subscriber, Callback, *mut c_void) -> Result,
    unsubscribe: unsafe extern "C" fn(Subscriber) -> Result,
    enable: unsafe extern "C" fn(u32, Subscriber, u32, u32) -> Result,
    function_name: unsafe extern "C" fn(u32, u32, *mut *const c_char) -> Result,
    device_of: unsafe extern "C" fn(*mut c_void, *mut u32) -> Result,
    reason: unsafe extern "C" fn(Result, *mut *const c_char) -> Result,
}

/// What a function of the CUDA driver does, and what its parameters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Allocates memory; the parameters are a pointer to the address, and the number of bytes.
    Alloc(Kind),
    /// Allocates padded rows; the parameters are a pointer to the address, a pointer to the row
    /// length (pitch), the width and the height.
    AllocPitch,
    /// Creates physical memory; the parameters are a pointer to the handle, the number of bytes,
    /// and properties.
    Create,
    /// Creates an array; the parameters are a pointer to the handle, and a pointer to a description
    /// that starts with the sizes of the array. The value of the variant is the number of sizes: 2
    /// for width and height, 3 if the depth follows.
    CreateArray(usize),
    /// Frees memory; the parameter is the address.
    Free,
    /// Releases physical memory; the parameter is the handle of the memory.
    Release,
    /// Frees an array; the parameter is its handle.
    Destroy,
}

/// The driver functions that allocate and free. Those with the suffix `_ptsz` are the variants that
/// a program calls when it is compiled for one default stream per thread.
const FUNCTIONS: [(&str, Call); 17] = [
    ("cuMemAlloc_v2", Call::Alloc(Kind::Device)),
    ("cuMemAllocPitch_v2", Call::AllocPitch),
    ("cuMemAllocManaged", Call::Alloc(Kind::Managed)),
    ("cuMemAllocAsync", Call::Alloc(Kind::Pool)),
    ("cuMemAllocAsync_ptsz", Call::Alloc(Kind::Pool)),
    ("cuMemAllocFromPoolAsync", Call::Alloc(Kind::Pool)),
    ("cuMemAllocFromPoolAsync_ptsz", Call::Alloc(Kind::Pool)),
    ("cuMemCreate", Call::Create),
    ("cuMemFree_v2", Call::Free),
    ("cuMemFreeAsync", Call::Free),
    ("cuMemFreeAsync_ptsz", Call::Free),
    ("cuMemRelease", Call::Release),
    ("cuArrayCreate_v2", Call::CreateArray(2)),
    ("cuArray3DCreate_v2", Call::CreateArray(3)),
    ("cuMipmappedArrayCreate", Call::CreateArray(3)),
    ("cuArrayDestroy", Call::Destroy),
    ("cuMipmappedArrayDestroy", Call::Destroy),
];

/// CUPTI and its numbers for the driver functions; set before the first callback.
static LIBRARY: OnceLock<Library> = OnceLock::new();
static CALLS: OnceLock<Vec<(u32, Call)>> = OnceLock::new();

/// The handle of the subscription to CUPTI while one exists.
static SUBSCRIBER: Mutex<Option<Handle>> = Mutex::new(None);

struct Handle(Subscriber);

// SAFETY: a handle of CUPTI is an address that any thread may pass back to CUPTI.
unsafe impl Send for Handle {}

/// Subscribes to CUPTI's callbacks for allocations, or returns the reason why it cannot.
pub(super) fn subscribe(paths: &[PathBuf]) -> std::result::Result<(), String> {
    // CUPTI ends a process that has no CUDA driver, so CUPTI is loaded only when the driver is
    // loaded.
    if open(c"libcuda.so.1", libc::RTLD_NOLOAD).is_none() {
        return Err("the NVIDIA driver is not loaded".to_owned());
    }
    if LIBRARY.get().is_none() {
        // When two threads load CUPTI at once, both load the same library, so either result may be
        // kept.
        let _ = LIBRARY.set(load(paths)?);
    }
    let library = LIBRARY.get().ok_or("CUPTI is not loaded")?;
    let calls = CALLS.get_or_init(|| library.calls());
    let frees = calls.iter().any(|(_, call)| *call == Call::Free);
    if !frees
        || !calls
            .iter()
            .any(|(_, call)| *call == Call::Alloc(Kind::Device))
    {
        return Err("this version of CUPTI does not report the driver's allocations".to_owned());
    }
    let mut held = lock(&SUBSCRIBER);
    let mut handle = std::ptr::null_mut();
    // SAFETY: CUPTI's `subscribe` has this type; `on_call` stays loaded as long as the process
    // lives, because Python unloads no extension module.
    let result = unsafe { (library.subscribe)(&raw mut handle, on_call, std::ptr::null_mut()) };
    library.check("cuptiSubscribe", result)?;
    for (number, _) in calls {
        // SAFETY: the handle belongs to the subscription that was just made.
        let result = unsafe { (library.enable)(1, handle, DRIVER_API, *number) };
        if let Err(error) = library.check("cuptiEnableCallback", result) {
            // SAFETY: the handle belongs to the subscription that was just made, and it is not used
            // again.
            unsafe { (library.unsubscribe)(handle) };
            return Err(error);
        }
    }
    *held = Some(Handle(handle));
    Ok(())
}

/// Ends the subscription to CUPTI, so that another profiler may subscribe.
pub(super) fn unsubscribe() {
    let handle = lock(&SUBSCRIBER).take();
    if let Some((library, handle)) = LIBRARY.get().zip(handle) {
        // SAFETY: the handle belongs to the current subscription; it is removed from `SUBSCRIBER`
        // and not used again.
        unsafe { (library.unsubscribe)(handle.0) };
    }
}

/// Names of a CUPTI library that the process may have loaded already, the newest first.
const LOADED: [&CStr; 3] = [c"libcupti.so.13", c"libcupti.so.12", c"libcupti.so.11.0"];

/// Loads CUPTI: the library that the process has loaded already, or else the first of `paths` that
/// can be loaded.
fn load(paths: &[PathBuf]) -> std::result::Result<Library, String> {
    let mut reason = "no libcupti found".to_owned();
    for name in LOADED {
        if let Some(handle) = open(name, libc::RTLD_NOLOAD) {
            return Library::of(handle);
        }
    }
    for path in paths {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
            continue;
        };
        match open(&name, 0) {
            Some(handle) => return Library::of(handle),
            None => reason = format!("cannot load '{}'", path.display()),
        }
    }
    Err(reason)
}

pub(super) fn open(name: &CStr, flags: c_int) -> Option<*mut c_void> {
    // SAFETY: the file name of the library ends with a zero byte. Loading CUPTI runs its own
    // initialization, and PyTorch loads the same library in the same way.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
    (!handle.is_null()).then_some(handle)
}

/// Looks up a function of a loaded library by its name.
///
/// # Safety
/// `F` must be the type of a pointer to this function.
pub(super) unsafe fn function<F>(
    handle: *mut c_void,
    name: &CStr,
) -> std::result::Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the handle belongs to a loaded library, which is never closed.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(format!(
            "the loaded library has no function {}",
            name.to_string_lossy()
        ));
    }
    // SAFETY: the caller guarantees that the address is that of a function of this type.
    Ok(unsafe { std::mem::transmute_copy(&found) })
}

impl Library {
    fn of(handle: *mut c_void) -> std::result::Result<Self, String> {
        // SAFETY: CUPTI's functions have had the types used here since CUPTI 6.0.
        unsafe {
            Ok(Self {
                subscribe: function(handle, c"cuptiSubscribe")?,
                unsubscribe: function(handle, c"cuptiUnsubscribe")?,
                enable: function(handle, c"cuptiEnableCallback")?,
                function_name: function(handle, c"cuptiGetCallbackName")?,
                device_of: function(handle, c"cuptiGetDeviceId")?,
                reason: function(handle, c"cuptiGetResultString")?,
            })
        }
    }

    /// Turns an error code of CUPTI into a text with CUPTI's own name for the error.
    fn check(&self, what: &str, result: Result) -> std::result::Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: CUPTI sets the pointer to a static text, or does not change it.
        let known = unsafe { (self.reason)(result, &raw mut name) };
        let name = if known == 0 && !name.is_null() {
            // SAFETY: CUPTI's texts end with a zero byte and are never freed.
            unsafe { CStr::from_ptr(name) }.to_string_lossy()
        } else {
            "unknown error".into()
        };
        Err(format!("{what} failed: {name} ({result})"))
    }

    /// The numbers that the loaded version of CUPTI has for the functions of `FUNCTIONS`.
    fn calls(&self) -> Vec<(u32, Call)> {
        let mut found = Vec::new();
        for number in 1..MOST_FUNCTIONS {
            let mut name = std::ptr::null();
            // SAFETY: CUPTI sets the pointer to a static text, or fails for a number that it does
            // not know.
            let result = unsafe { (self.function_name)(DRIVER_API, number, &raw mut name) };
            if result != 0 || name.is_null() {
                // The numbers of driver functions are consecutive, so the first unknown number is
                // the end.
                break;
            }
            // SAFETY: CUPTI's texts end with a zero byte and are never freed.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes();
            let call = FUNCTIONS.iter().find(|(own, _)| own.as_bytes() == name);
            found.extend(call.map(|(_, call)| (number, *call)));
        }
        found
    }

    /// The number of the device that a CUDA context belongs to.
    fn device(&self, context: *mut c_void) -> Option<u32> {
        if context.is_null() {
            return None;
        }
        let mut device = 0;
        // SAFETY: CUPTI passed this CUDA context, which is the current one of this thread.
        let result = unsafe { (self.device_of)(context, &raw mut device) };
        (result == 0).then_some(device)
    }
}

/// A callback that CUPTI calls on the thread that calls the driver, at the beginning and the end of
/// each call.
unsafe extern "C" fn on_call(
    _user: *mut c_void,
    domain: u32,
    number: u32,
    data: *const CallbackData,
) {
    // A panic must not unwind through CUPTI, which is C code.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if domain != DRIVER_API || data.is_null() {
            return;
        }
        let calls = CALLS.get().map_or(&[][..], Vec::as_slice);
        let Some((_, call)) = calls.iter().find(|(own, _)| *own == number) else {
            return;
        };
        // SAFETY: CUPTI passes a valid `CallbackData` for the time of the call.
        let data = unsafe { &*data };
        if data.parameters.is_null() {
            return;
        }
        match (data.site, call) {
            // The allocation is removed before the driver frees it, because another thread may get
            // the same address as soon as the driver has freed it.
            // SAFETY: a driver function that frees memory has an address as its first parameter.
            (ENTER, Call::Free) => freed(Key::Address(unsafe { data.parameter(0) })),
            // SAFETY: a driver function that releases physical memory has a handle as its first
            // parameter.
            (ENTER, Call::Release) => freed(Key::Handle(unsafe { data.parameter(0) })),
            // SAFETY: a driver function that destroys an array has a handle as its first parameter.
            (ENTER, Call::Destroy) => freed(Key::Array(unsafe { data.parameter(0) })),
            (EXIT, Call::Alloc(_) | Call::AllocPitch | Call::Create | Call::CreateArray(_)) => {
                allocated(data, *call);
            }
            _ => {}
        }
    }));
}

impl CallbackData {
    /// The parameter of eight bytes at this index.
    ///
    /// # Safety
    /// The driver function must have a parameter of eight bytes at this index.
    unsafe fn parameter(&self, place: usize) -> u64 {
        // SAFETY: CUPTI passes the parameters as a C structure; its fields up to the given index
        // have eight bytes each.
        unsafe { self.parameters.cast::<u64>().add(place).read() }
    }

    /// The parameter at this index, which is an address.
    ///
    /// # Safety
    /// The driver function must have an address at this index.
    unsafe fn pointer<T>(&self, place: usize) -> *const T {
        // SAFETY: CUPTI passes the parameters as a C structure; its fields up to the given index
        // have eight bytes each.
        unsafe { self.parameters.cast::<*const T>().add(place).read() }
    }

    /// Whether the driver function has returned without an error.
    fn has_succeeded(&self) -> bool {
        // SAFETY: at the end of a call, `return_value` points to the result code of the driver
        // function.
        !self.return_value.is_null() && unsafe { *self.return_value } == 0
    }
}

fn freed(key: Key) {
    holdings::all().remove(key);
}

fn allocated(data: &CallbackData, call: Call) {
    if !data.has_succeeded() {
        return;
    }
    // SAFETY: the first parameter of every allocating driver function points to the new address or
    // handle, which is set because the call has succeeded.
    let result = unsafe {
        let place = data.pointer::<u64>(0);
        if place.is_null() {
            return;
        }
        place.read()
    };
    let library = LIBRARY.get();
    let device = || library.and_then(|library| library.device(data.context));
    // SAFETY: each driver function has the parameters that its variant of `Call` describes.
    let (key, bytes, kind, device) = unsafe {
        match call {
            Call::Create => {
                let properties = data.pointer::<c_int>(2);
                // The properties of physical memory are four integers: type, handle types, type of
                // the location, and number of the location.
                if properties.is_null() || *properties.add(2) != ON_DEVICE {
                    return;
                }
                let device = u32::try_from(*properties.add(3)).ok();
                let bytes = Some(data.parameter(1));
                (Key::Handle(result), bytes, Kind::Device, device)
            }
            Call::CreateArray(sizes) => {
                let description = data.pointer::<u64>(1);
                if description.is_null() {
                    return;
                }
                // In a description of an array, the sizes are followed by the format and the number
                // of channels, and the flags follow if there are three sizes.
                let rest = description.add(sizes).cast::<u32>();
                if sizes == 3 && *rest.add(2) & WITHOUT_MEMORY != 0 {
                    return;
                }
                (Key::Array(result), None, Kind::Array, device())
            }
            Call::AllocPitch => {
                let pitch = data.pointer::<u64>(1);
                let pitch = if pitch.is_null() { 0 } else { *pitch };
                let bytes = pitch
                    .max(data.parameter(2))
                    .saturating_mul(data.parameter(3));
                (Key::Address(result), Some(bytes), Kind::Device, device())
            }
            Call::Alloc(kind) => {
                let bytes = Some(data.parameter(1));
                (Key::Address(result), bytes, kind, device())
            }
            Call::Free | Call::Release | Call::Destroy => return,
        }
    };
    let library = caller::library();
    let is_large = bytes.is_none_or(|bytes| bytes >= SMALLEST_WITH_LINE);
    let asks = is_large && !is_of_pytorch(library.as_deref());
    let site = asks
        .then(|| DESK.ask(this_thread()))
        .flatten()
        .map(Arc::new);
    let block = Block {
        bytes,
        device,
        kind,
        library,
        site,
    };
    holdings::all().add(key, block);
}

/// Whether PyTorch's allocator asked for the memory. The lines of Python behind such memory are not
/// looked up: PyTorch itself records them, and a thread must not wait for the lookup while the
/// allocator holds its lock.
fn is_of_pytorch(library: Option<&str>) -> bool {
    library.is_some_and(|name| name.starts_with("libc10_cuda"))
}

/// The id of this thread, as Python's `threading.get_ident` returns it.
fn this_thread() -> u64 {
    // SAFETY: `pthread_self` has no preconditions.
    let thread = unsafe { libc::pthread_self() };
    thread as u64
}
