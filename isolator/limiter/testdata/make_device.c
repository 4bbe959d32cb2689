#include <stdint.h>
#include <stdlib.h>
int standin_make(const char *, uint64_t, unsigned, unsigned);
int main(int argc, char **argv) { return argc == 5 ? standin_make(argv[1], strtoull(argv[2], NULL, 10), (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4])) : 2; }
