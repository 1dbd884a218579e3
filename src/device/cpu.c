/* What this CPU is: cpuid for x86-64; elsewhere the C library's answers, and only the portable target. Asked once per process. */
#include "device/device.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sp_cpu cpu;

#if defined(__x86_64__)
#include <cpuid.h>

/* State components of XCR0: a CPU may have registers that the kernel does not keep over a task switch. */
enum { SAVES_YMM = 0x6, SAVES_ZMM = 0xe6, SAVES_TILES = 0x60000 };
enum { EAX, EBX, ECX, EDX };

typedef struct feature {
    const char *word;
    unsigned leaf, subleaf;
    int reg, bit;
    uint64_t saves;
} feature;
static const feature features[] = {
#define SP_FEATURE(word, leaf, subleaf, reg, bit, saves) {word, leaf, subleaf, reg, bit, saves},
#include "device/features.def"
#undef SP_FEATURE
};

static bool ask(unsigned leaf, unsigned subleaf, unsigned r[4])
{
    memset(r, 0, 4 * sizeof *r);
    return __get_cpuid_count(leaf, subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) != 0;
}

static uint64_t saved_state(void)
{
    unsigned r[4], low, high;
    if (!ask(1, 0, r) || !(r[ECX] >> 27 & 1)) return 0; /* OSXSAVE: xgetbv may be used */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool offers(const feature *f, uint64_t saved)
{
    unsigned r[4];
    if ((saved & f->saves) != f->saves) return false;
    if (f->subleaf && (!ask(f->leaf, 0, r) || r[EAX] < f->subleaf)) return false;
    return ask(f->leaf, f->subleaf, r) && (r[f->reg] >> f->bit & 1);
}

static void find_features(void)
{
    uint64_t saved = saved_state();
    size_t used = 0;
    for (size_t i = 0; i < SP_COUNT(features); i++) {
        size_t n = strlen(features[i].word);
        if (!offers(&features[i], saved) || used + n + 2 > sizeof cpu.isa) continue;
        if (used) cpu.isa[used++] = ' ';
        memcpy(cpu.isa + used, features[i].word, n + 1);
        used += n;
    }
}

static void find_names(void)
{
    unsigned r[4] = {0};
    if (ask(0, 0, r)) {
        memcpy(cpu.vendor, &r[EBX], 4);
        memcpy(cpu.vendor + 4, &r[EDX], 4);
        memcpy(cpu.vendor + 8, &r[ECX], 4);
    }
    for (unsigned i = 0; i < 3; i++)
        if (ask(0x80000002 + i, 0, r)) memcpy(cpu.brand + 16 * i, r, 16);
    if (!ask(1, 0, r)) return;
    cpu.family = (int)(r[EAX] >> 8 & 15);
    cpu.model = (int)(r[EAX] >> 4 & 15);
    if (cpu.family == 6 || cpu.family == 15) cpu.model += (int)(r[EAX] >> 16 & 15) << 4;
    if (cpu.family == 15) cpu.family += (int)(r[EAX] >> 20 & 255);
}

/* Leaves 4 (Intel) and 0x8000001D (AMD) have the same shape: one subleaf a cache, type 0 ends the list. */
static void find_caches(void)
{
    unsigned r[4];
    bool amd = ask(0x80000001, 0, r) && (r[ECX] >> 22 & 1); /* topology extensions */
    unsigned leaf = amd && !strcmp(cpu.vendor, "AuthenticAMD") ? 0x8000001D : 4;
    for (unsigned i = 0; i < 16 && ask(leaf, i, r) && (r[EAX] & 31); i++) {
        unsigned type = r[EAX] & 31, level = r[EAX] >> 5 & 7;
        size_t ways = (r[EBX] >> 22) + 1, parts = (r[EBX] >> 12 & 1023) + 1, line = (r[EBX] & 4095) + 1,
               sets = (size_t)r[ECX] + 1;
        size_t bytes = ways * parts * line * sets;
        if (type == 2) continue; /* instructions */
        if (level == 1) cpu.l1d = bytes;
        if (level == 2) cpu.l2 = bytes;
        if (level == 3) cpu.l3 = bytes;
    }
}
#else
static void find_features(void) {}
static void find_names(void)
{
    snprintf(cpu.vendor, sizeof cpu.vendor, "unknown");
}
static void find_caches(void) {}
#endif

static size_t positive(long n)
{
    return n > 0 ? (size_t)n : 0;
}

/* What cpuid did not say (an odd hypervisor, another architecture), the C library may know. */
static void fill_caches(void)
{
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (!cpu.l1d) cpu.l1d = positive(sysconf(_SC_LEVEL1_DCACHE_SIZE));
    if (!cpu.l2) cpu.l2 = positive(sysconf(_SC_LEVEL2_CACHE_SIZE));
    if (!cpu.l3) cpu.l3 = positive(sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
}

/* Brand strings are padded with blanks on either side, and come from a hypervisor. */
static void trim(char *s)
{
    size_t from = strspn(s, " "), n = strlen(s);
    while (n > from && s[n - 1] == ' ') n--;
    memmove(s, s + from, n - from);
    s[n - from] = 0;
    for (; *s; s++)
        if (*s < 0x20 || *s > 0x7e) *s = '?';
}

static void find_cpu(void)
{
    find_names();
    trim(cpu.vendor);
    trim(cpu.brand);
    if (!cpu.brand[0]) snprintf(cpu.brand, sizeof cpu.brand, "unknown CPU");
    find_features();
    find_caches();
    fill_caches();
    cpu.cores = sp_cores();
    cpu.memory = positive(sysconf(_SC_PHYS_PAGES)) * positive(sysconf(_SC_PAGESIZE));
}

const sp_cpu *sp_cpu_info(void)
{
    pthread_once(&once, find_cpu);
    return &cpu;
}

bool sp_cpu_has(const char *word)
{
    const char *isa = sp_cpu_info()->isa;
    size_t n = strlen(word);
    for (const char *at = n ? strstr(isa, word) : NULL; at; at = strstr(at + 1, word))
        if ((at == isa || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) return true;
    return false;
}

/* Hashes a text, not the struct: padding and later fields must not change old records. */
uint64_t sp_cpu_digest(void)
{
    const sp_cpu *c = sp_cpu_info();
    char text[512];
    int n = snprintf(text, sizeof text, "%s/%d/%d/%s/%zu/%zu/%zu", c->vendor, c->family, c->model, c->isa,
                     c->l1d, c->l2, c->l3);
    return sp_hash(text, (size_t)n, 0);
}

uint64_t sp_machine_digest(void)
{
    const sp_cpu *c = sp_cpu_info();
    char text[160];
    int n = snprintf(text, sizeof text, "%016lx/%s/%d/%zu", (unsigned long)sp_cpu_digest(), c->brand,
                     c->cores, (c->memory + (1u << 29)) >> 30);
    return sp_hash(text, (size_t)n, 0);
}
