// A library that is preloaded before the limiter with a dlsym of its own.
void *dlsym(void *handle, const char *name) { return handle && name ? (void *)0 : (void *)0; }
