#include <stdlib.h>
int main(void) { return atoi("41") == 42 ? 0 : 1; }
