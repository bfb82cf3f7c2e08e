//! Finds the devices on which this process has a CUDA context. Checking for a context creates none
//! and needs no Python interpreter.

#![expect(
    unsafe_code,
    reason = "functions of the CUDA driver, a C library, are looked up by name"
)]

use std::ffi::{c_int, c_uint};
use std::thread;
use std::time::{Duration, Instant};

use super::cupti::{function, open};

/// The largest number of devices that are checked, which is more than a process has.
const MOST_DEVICES: c_int = 64;

/// The functions of the CUDA driver that this module calls: one counts the devices, the other
/// returns whether a device has a context.
struct Driver {
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    state: unsafe extern "C" fn(c_int, *mut c_uint, *mut c_int) -> c_int,
}

impl Driver {
    /// The CUDA driver, if the process has loaded it.
    fn loaded() -> Option<Self> {
        let handle = open(c"libcuda.so.1", libc::RTLD_NOLOAD)?;
        // SAFETY: the two functions of the CUDA driver have had the types used here since CUDA 7.0.
        unsafe {
            Some(Self {
                count: function(handle, c"cuDeviceGetCount").ok()?,
                state: function(handle, c"cuDevicePrimaryCtxGetState").ok()?,
            })
        }
    }

    /// The number of devices; `None` before the driver is initialized.
    fn devices(&self) -> Option<u32> {
        let mut count = 0;
        // SAFETY: `cuDeviceGetCount` writes one number, and fails before `cuInit`.
        let result = unsafe { (self.count)(&raw mut count) };
        let count = u32::try_from(count.clamp(0, MOST_DEVICES)).ok()?;
        (result == 0).then_some(count)
    }

    /// Whether this process has a CUDA context (the primary one) on a device.
    fn is_active(&self, device: u32) -> bool {
        let (mut flags, mut active) = (0, 0);
        let Ok(device) = c_int::try_from(device) else {
            return false;
        };
        // SAFETY: `cuDevicePrimaryCtxGetState` writes both numbers; a CUDA device is identified by
        // its number.
        let result = unsafe { (self.state)(device, &raw mut flags, &raw mut active) };
        result == 0 && active != 0
    }
}

/// The devices on which [`wait_for_contexts`] found a new CUDA context of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewContexts {
    /// The index of each of these devices, as CUDA numbers devices in this process.
    pub devices: Vec<u32>,
    /// When the devices were last seen without a context, counted from the start of the wait;
    /// `None` where the first check found a context.
    pub last_without: Option<Duration>,
}

/// Checks at intervals of `every` for contexts on devices other than the known ones, until a
/// context is found or the time `patience` has passed. One check takes less than a microsecond for
/// each device. When every device is known, the function only sleeps for `patience`.
pub fn wait_for_contexts(known: &[u32], every: Duration, patience: Duration) -> NewContexts {
    let began = Instant::now();
    let Some(driver) = Driver::loaded() else {
        thread::sleep(patience);
        return NewContexts::default();
    };
    let mut last_without = None;
    loop {
        let at = began.elapsed();
        let count = driver.devices();
        let is_unknown = |device: &u32| !known.contains(device);
        if count.is_some_and(|count| count > 0 && !(0..count).any(|device| is_unknown(&device))) {
            thread::sleep(patience.saturating_sub(at));
            return NewContexts::default();
        }
        let unknown = (0..count.unwrap_or(0)).filter(is_unknown);
        let devices: Vec<u32> = unknown.filter(|device| driver.is_active(*device)).collect();
        if devices.is_empty() {
            last_without = Some(at);
        }
        let left = patience.saturating_sub(began.elapsed());
        if !devices.is_empty() || left.is_zero() {
            return NewContexts {
                devices,
                last_without,
            };
        }
        thread::sleep(left.min(every.max(Duration::from_millis(1))));
    }
}
