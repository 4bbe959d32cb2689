// A library that is preloaded before the limiter and defines dlsym.
void *dlsym(void *handle, const char *name) { return handle && name ? (void *)0 : (void *)0; }
