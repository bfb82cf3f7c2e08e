//! Collects the content of `environment.json`: facts about the machine and its GPU that are visible
//! from outside a training process.

use stormlog_capture::collect::cgroup::{MemoryGroup, Roots, machine_room};
use stormlog_capture::collect::nvml;
use stormlog_format::{Map, Text, Value, byte_text};

/// The content of `environment.json`: facts about the machine and, if a GPU is diagnosed, about
/// this GPU.
pub fn environment(gpu: Option<u32>) -> Map {
    let mut map = Map::new();
    map.insert("system", Value::Map(system()));
    map.insert("gpu", Value::Map(gpu_facts(gpu)));
    let mut fragmentation = Map::new();
    let note = match gpu {
        None => "no GPU was diagnosed",
        Some(_) => "an allocator's own counters cannot be read from outside its process",
    };
    fragmentation.insert("note", note);
    map.insert("fragmentation", Value::Map(fragmentation));
    map
}

/// The memory use of a GPU from the framework's counters: sizes in bytes, and ratios such as the
/// fragmentation. A value is unknown if a counter from which it is computed is unknown.
pub fn fragmentation(gpu: &Map) -> Map {
    let number = |key: &str| gpu.int(key);
    let stats = gpu.object("memory_stats");
    let stat = |key: &str| stats.and_then(|stats| stats.int(key));
    let mut map = Map::new();
    if let Some(error) = gpu.get("error") {
        map.insert("error", error.clone());
        return map;
    }
    let (total, allocated) = (number("total_memory"), number("allocated_memory"));
    let reserved = number("reserved_memory");
    let inactive = stat("inactive_bytes");
    let less = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_sub(b?));
    map.insert("device_id", number("device_id"));
    let sizes = [
        ("total_memory", total),
        ("allocated_memory", allocated),
        ("reserved_memory", reserved),
        ("active_memory", stat("active_bytes")),
        ("inactive_memory", inactive),
        ("free_memory", less(total, reserved)),
    ];
    for (name, bytes) in sizes {
        map.insert(name, bytes);
    }
    for (name, part, whole) in [
        ("fragmentation_ratio", inactive, reserved),
        ("utilization_ratio", allocated, total),
        ("reservation_ratio", reserved, total),
        ("waste_ratio", less(reserved, allocated), total),
    ] {
        map.insert(name, ratio(part, whole));
    }
    for (name, bytes) in sizes {
        let text = bytes.map(|bytes| Text::from(byte_text(bytes)));
        map.insert(format!("{name}_formatted"), text);
    }
    map
}

fn ratio(part: Option<i64>, whole: Option<i64>) -> Value {
    match (part, whole) {
        (Some(part), Some(whole)) if whole > 0 => Value::Float(part as f64 / whole as f64),
        (Some(_), Some(_)) => Value::Float(0.0),
        _ => Value::Null,
    }
}

fn system() -> Map {
    let name = rustix::system::uname();
    let gpus = nvml::gpus();
    let roots = Roots::default();
    let machine = machine_room(&roots);
    let whole = |value: Option<u64>| value.and_then(|bytes| i64::try_from(bytes).ok());
    let cores = std::thread::available_parallelism().ok();
    let cores = cores.and_then(|cores| i64::try_from(cores.get()).ok());
    // The Python package passes the versions of Python and PyTorch in environment variables;
    // without the package they are unknown.
    let python = std::env::var("STORMLOG_PYTHON_VERSION").ok();
    let torch = match std::env::var("STORMLOG_TORCH_AVAILABLE").as_deref() {
        Ok("True") => Value::Bool(true),
        Ok("False") => Value::Bool(false),
        _ => Value::Null,
    };
    let mut map = Map::new();
    map.insert("platform", &*name.sysname().to_string_lossy());
    map.insert("architecture", &*name.machine().to_string_lossy());
    map.insert("python_version", python.map(Text::from));
    map.insert("torch_available", torch);
    map.insert("cuda_available", Value::Bool(gpus.is_ok()));
    map.insert("rocm_available", Value::Null);
    map.insert("rocm_version", Value::Null);
    map.insert("mps_available", Value::Bool(false));
    map.insert("mps_built", Value::Bool(false));
    map.insert(
        "detected_backend",
        if gpus.is_ok() { "cuda" } else { "cpu" },
    );
    if let Ok(gpus) = &gpus {
        let count = i64::try_from(gpus.len()).unwrap_or(i64::MAX);
        map.insert("cuda_device_count", count);
        map.insert("driver_version", nvml::driver_version().map(Text::from));
    }
    map.insert("cpu_count", cores);
    map.insert("cpu_count_logical", cores);
    map.insert("memory_total", whole(machine.total));
    map.insert("memory_available", whole(machine.free));
    map.insert("memory_percent", used_percent(machine.total, machine.free));
    let group = MemoryGroup::of_process(&roots, None);
    if let Some(limit) = whole(group.and_then(|group| group.limit())) {
        map.insert("memory_limit", limit);
    }
    map
}

fn used_percent(total: Option<u64>, free: Option<u64>) -> Value {
    match (total, free) {
        (Some(total), Some(free)) if total > 0 => {
            let share = total.saturating_sub(free) as f64 / total as f64;
            Value::Float((share * 1000.0).round() / 10.0)
        }
        _ => Value::Null,
    }
}

fn gpu_facts(gpu: Option<u32>) -> Map {
    let mut map = Map::new();
    let Some(index) = gpu else {
        map.insert("error", "CUDA is not available");
        return map;
    };
    let known = nvml::gpus().ok();
    let known = known.and_then(|gpus| gpus.into_iter().find(|gpu| gpu.index == index));
    map.insert("device_id", i64::from(index));
    map.insert("device_name", known.map(|gpu| Text::from(gpu.name)));
    match nvml::device_memory(index) {
        Ok(memory) => {
            let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            map.insert("total_memory", whole(memory.total));
            map.insert("used_memory", whole(memory.used));
            map.insert("free_memory", whole(memory.free));
        }
        Err(reason) => map.insert("memory_error", &*reason),
    }
    map
}
