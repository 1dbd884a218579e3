/* Names to integers: open addressing, linear probing, at most two thirds full. Keys are borrowed. The hash is
 * seeded per map, so that names chosen by somebody hostile do not pile up in one place. */
#include "base/base.h"
#include <string.h>

typedef struct slot {
    const char *key; /* NULL: free */
    uint64_t hash;
    int64_t value;
} slot;

struct sp_map {
    sparta_ctx *cx;
    slot *slots;
    size_t capacity, size; /* capacity: a power of two */
    uint64_t seed;
};

enum { FIRST_CAPACITY = 16 };

sp_map *sp_map_create(sparta_ctx *cx)
{
    sp_map *map = sp_zalloc(cx, sizeof *map);
    if (!map) return NULL;
    map->cx = cx;
    map->capacity = FIRST_CAPACITY;
    double now = sp_now();
    memcpy(&map->seed, &now, sizeof now);
    map->seed ^= (uintptr_t)map;
    map->slots = sp_alloc_array(cx, map->capacity, sizeof *map->slots);
    if (!map->slots) {
        sp_free(cx, map);
        return NULL;
    }
    return map;
}

void sp_map_free(sp_map *map)
{
    if (!map) return;
    sp_free(map->cx, map->slots);
    sp_free(map->cx, map);
}

/* The slot of the key, or the free one where it would go. */
static slot *find(slot *slots, size_t capacity, const char *key, uint64_t hash)
{
    size_t i = hash & (capacity - 1);
    while (slots[i].key && (slots[i].hash != hash || strcmp(slots[i].key, key))) i = (i + 1) & (capacity - 1);
    return &slots[i];
}

static sparta_status grow(sp_map *map)
{
    size_t capacity = 2 * map->capacity;
    slot *slots = sp_alloc_array(map->cx, capacity, sizeof *slots);
    SP_NEED(map->cx, slots);
    for (size_t i = 0; i < map->capacity; i++) {
        const slot *s = &map->slots[i];
        if (s->key) *find(slots, capacity, s->key, s->hash) = *s;
    }
    sp_free(map->cx, map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return SPARTA_OK;
}

sparta_status sp_map_put(sp_map *map, const char *key, int64_t value)
{
    uint64_t hash = sp_hash(key, strlen(key), map->seed);
    slot *s = find(map->slots, map->capacity, key, hash);
    if (s->key) {
        s->value = value;
        return SPARTA_OK;
    }
    if (3 * (map->size + 1) > 2 * map->capacity) {
        SP_TRY(grow(map));
        s = find(map->slots, map->capacity, key, hash);
    }
    *s = (slot){key, hash, value};
    map->size++;
    return SPARTA_OK;
}

bool sp_map_get(const sp_map *map, const char *key, int64_t *value)
{
    const slot *s = find(map->slots, map->capacity, key, sp_hash(key, strlen(key), map->seed));
    if (!s->key) return false;
    if (value) *value = s->value;
    return true;
}

size_t sp_map_size(const sp_map *map)
{
    return map->size;
}
