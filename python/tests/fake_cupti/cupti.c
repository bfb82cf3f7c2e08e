/* Stands in for CUPTI and the driver: `fake_call` makes the callbacks that a function of the driver
   with these parameters causes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef void (*callback)(void *, uint32_t, uint32_t, const void *);

struct data {
    uint32_t site;
    const char *function_name;
    const void *parameters;
    const int *return_value;
    const char *symbol_name;
    void *context;
    uint32_t context_uid;
    uint64_t *correlation_data;
    uint32_t correlation_id;
};

static const char *NAMES[] = {
    "", "cuInit", "cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocManaged", "cuMemCreate",
    "cuMemRelease", "cuMemAllocPitch_v2", "cuMemAllocAsync", "cuMemFreeAsync",
    "cuArrayCreate_v2", "cuArray3DCreate_v2", "cuMipmappedArrayCreate", "cuArrayDestroy",
    "cuMipmappedArrayDestroy",
};
enum { COUNT = sizeof NAMES / sizeof *NAMES };

static callback subscriber;
static char enabled[COUNT];

int cuptiSubscribe(void **handle, callback function, void *user) {
    (void)user;
    if (subscriber) return 39;
    subscriber = function;
    *handle = &subscriber;
    return 0;
}

int cuptiUnsubscribe(void *handle) {
    (void)handle;
    subscriber = NULL;
    memset(enabled, 0, sizeof enabled);
    return 0;
}

int cuptiEnableCallback(uint32_t enable, void *handle, uint32_t domain, uint32_t number) {
    (void)handle;
    if (domain != 1 || number >= COUNT) return 1;
    enabled[number] = (char)enable;
    return 0;
}

int cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
    if (domain != 1 || number == 0 || number >= COUNT) return 1;
    *name = NAMES[number];
    return 0;
}

int cuptiGetDeviceId(void *context, uint32_t *device) {
    *device = (uint32_t)(uintptr_t)context - 1;
    return 0;
}

int cuptiGetResultString(int result, const char **name) {
    *name = result == 39 ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR";
    return 0;
}

/* The context is the number of the device plus one. */
int fake_call(const char *name, const uint64_t *parameters, int result, uintptr_t context) {
    for (uint32_t number = 1; number < COUNT; number++) {
        if (strcmp(NAMES[number], name) != 0) continue;
        if (!subscriber || !enabled[number]) return 0;
        struct data data = {
            .parameters = parameters, .return_value = &result, .context = (void *)context,
            .function_name = name,
        };
        for (data.site = 0; data.site < 2; data.site++) subscriber(NULL, 1, number, &data);
        return 1;
    }
    return -1;
}

/* The devices with a context, as bits; -1 before the driver is initialized. */
static int contexts = -1;

void fake_contexts(int devices) { contexts = devices; }

int cuDeviceGetCount(int *count) {
    *count = 4;
    return contexts < 0 ? 3 : 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = 0;
    *active = contexts >> device & 1;
    return 0;
}
