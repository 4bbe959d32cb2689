// The names of the driver's functions that the limiter hooks or calls.
#include "limiter.h"

const struct function_name function_names[HOOKS] = {
#define HOOK(lib, symbol) {#symbol, LIBRARY_##lib, true},
#define USE(lib, symbol) {#symbol, LIBRARY_##lib, false},
#include "hooks.def"
#undef HOOK
#undef USE
};
