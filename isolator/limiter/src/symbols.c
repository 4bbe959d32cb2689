// Finds the C library's dlsym and related functions without a lookup by name,
// which would find the limiter's own. It searches the hash tables of the
// objects loaded after the limiter.
#define _GNU_SOURCE
#include "limiter.h"
#include <elf.h>
#include <link.h>
#include <string.h>

struct search {
	const char *name;
	uintptr_t own_address;
	bool own_visited; // the limiter itself has been visited: objects before it may call it and would recurse
	void *found;
};

static bool contains_address(const struct dl_phdr_info *o, uintptr_t address)
{
	for (int i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		if (p->p_type == PT_LOAD && address - o->dlpi_addr - p->p_vaddr < p->p_memsz)
			return true;
	}
	return false;
}

static uint32_t gnu_hash(const char *s)
{
	uint32_t h = 5381;
	for (; *s; s++)
		h = h * 33 + (unsigned char)*s;
	return h;
}

struct symbol_tables { const ElfW(Sym) *symbols; const char *strings; const uint32_t *hash, *old_hash; };

static struct symbol_tables read_tables(const struct dl_phdr_info *o)
{
	struct symbol_tables t = {0};
	const ElfW(Dyn) *d = NULL;
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++) {
		// The addresses in the vDSO's tables are not relocated.
		uintptr_t at = d->d_un.d_ptr < o->dlpi_addr ? d->d_un.d_ptr + o->dlpi_addr : d->d_un.d_ptr;
		if (d->d_tag == DT_SYMTAB)
			t.symbols = (const void *)at;
		else if (d->d_tag == DT_STRTAB)
			t.strings = (const void *)at;
		else if (d->d_tag == DT_GNU_HASH)
			t.hash = (const void *)at;
		else if (d->d_tag == DT_HASH)
			t.old_hash = (const void *)at;
	}
	return t;
}

// The older hash table is rare, so its symbols are searched linearly.
static const ElfW(Sym) *find_linear(const struct symbol_tables *t, const char *name)
{
	for (uint32_t i = 0; i < t->old_hash[1]; i++)
		if (t->symbols[i].st_shndx != SHN_UNDEF && strcmp(t->strings + t->symbols[i].st_name, name) == 0)
			return &t->symbols[i];
	return NULL;
}

static const ElfW(Sym) *find_symbol(const struct symbol_tables *t, const char *name)
{
	if (!t->symbols || !t->strings || (!t->hash && !t->old_hash))
		return NULL;
	if (!t->hash)
		return find_linear(t, name);
	uint32_t nbuckets = t->hash[0], offset = t->hash[1], bloom = t->hash[2], h = gnu_hash(name);
	const uint32_t *buckets = t->hash + 4 + bloom * (sizeof(ElfW(Addr)) / 4), *chain = buckets + nbuckets;
	if (nbuckets == 0)
		return NULL;
	for (uint32_t i = buckets[h % nbuckets]; i >= offset; i++) {
		const ElfW(Sym) *s = &t->symbols[i];
		if ((chain[i - offset] | 1) == (h | 1) && s->st_shndx != SHN_UNDEF && strcmp(t->strings + s->st_name, name) == 0)
			return s;
		if (chain[i - offset] & 1)
			break;
	}
	return NULL;
}

static int visit_object(struct dl_phdr_info *o, size_t size, void *data)
{
	(void)size;
	struct search *s = data;
	if (!s->own_visited) {
		s->own_visited = contains_address(o, s->own_address);
		return 0;
	}
	struct symbol_tables t = read_tables(o);
	const ElfW(Sym) *symbol = find_symbol(&t, s->name);
	if (!symbol)
		return 0;
	s->found = (void *)(o->dlpi_addr + symbol->st_value);
	return 1;
}

void *libc_symbol(const char *name)
{
	struct search s = {.name = name, .own_address = (uintptr_t)&libc_symbol};
	dl_iterate_phdr(visit_object, &s);
	return s.found;
}

struct precedence { uintptr_t own_address; int objects; const char *object, *symbol; };

// visit_preceding skips the program itself, which is always first.
static int visit_preceding(struct dl_phdr_info *o, size_t size, void *data)
{
	(void)size;
	struct precedence *p = data;
	if (contains_address(o, p->own_address))
		return 1;
	if (p->objects++ == 0)
		return 0;
	struct symbol_tables t = read_tables(o);
	static const char *const lookups[] = {"dlsym", "dlvsym"};
	for (int i = 0; !p->symbol && i < 2; i++)
		p->symbol = find_symbol(&t, lookups[i]) ? lookups[i] : NULL;
	for (int i = 0; !p->symbol && i < HOOKS; i++)
		p->symbol = function_names[i].hooked && find_symbol(&t, function_names[i].name) ? function_names[i].name : NULL;
	p->object = p->symbol ? o->dlpi_name : NULL;
	return p->symbol != NULL;
}

const char *find_preceding_object(const char **symbol)
{
	struct precedence p = {.own_address = (uintptr_t)&find_preceding_object};
	dl_iterate_phdr(visit_preceding, &p);
	*symbol = p.symbol;
	return p.object;
}
