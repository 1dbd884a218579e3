/* Indices of packed weights: copied and verified when they are first used, once, whoever comes first. Opening a package only notes where they
 * are and asks for the room, which costs nothing until it is touched. */
#include "package/disk.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct sp_unverified {
    sp_index *list;
    atomic_bool good;
    pthread_mutex_t lock; /* of the first use */
};

/* Room for copies, which small arrays of a package share: many pages of 4 KiB take longer to be given than their bytes to be copied, and base
 * maps large blocks with large pages. Where asserts are on each array has its own, that a sanitizer sees the end of. */
struct sp_index_room {
    sp_index_room *next;
    size_t size, used;
    uint8_t *bytes;
};
#ifdef SP_CHECKED
enum { ROOM = 0, LINE = 64 };
#else
enum { ROOM = 16 << 20, LINE = 64 };
#endif

/* A large array has a room of its own size, behind the one that small ones go on to share. */
static sp_index_room *new_room(sparta_package *p, size_t least)
{
    sp_index_room *room = sp_arena_alloc(p->arena, sizeof *room), **at = &p->rooms;
    if (!room) return NULL;
    const bool own = least > ROOM / 4;
    room->size =
        own ? least : SP_MAX(least, SP_MIN((size_t)ROOM, p->file.size)); /* the file can need no more */
    room->bytes = sp_alloc(p->cx, room->size);
    if (!room->bytes) return NULL;
    if (own && *at) at = &(*at)->next;
    room->next = *at;
    *at = room;
    return room;
}

static void *room_for(sparta_package *p, size_t bytes)
{
    sp_index_room *room = p->rooms;
    if (!room || bytes > room->size - room->used) room = new_room(p, bytes);
    if (!room) return NULL;
    uint8_t *at = room->bytes + room->used;
    SP_ASSERT(bytes <= room->size - room->used && (!bytes || room->used % LINE == 0));
    room->used += SP_MIN(room->size - room->used, (bytes + LINE - 1) & ~(size_t)(LINE - 1));
    return at;
}

void sp_index_rooms_free(sparta_package *p)
{
    for (const sp_index_room *room = p->rooms; room; room = room->next) sp_free(p->cx, room->bytes);
    p->rooms = NULL;
}

sparta_status sp_index_add(sparta_package *p, sp_index **list, sparta_tensor *t)
{
    size_t bytes;
    if (!t->data) return SPARTA_OK;
    SP_TRY(sp_tensor_bytes(p->cx, t->dtype, 1, t->dim, &bytes));
    sp_index *i = sp_arena_alloc(p->arena, sizeof *i);
    SP_NEED(p->cx, i);
    *i = (sp_index){*list, t->data, room_for(p, bytes), bytes};
    SP_NEED(p->cx, i->to);
    t->data = i->to;
    *list = i;
    return SPARTA_OK;
}

sparta_status sp_unverified_create(sparta_package *p, sp_index *list, sp_unverified **out)
{
    sp_unverified *u = sp_arena_alloc(p->arena, sizeof *u);
    SP_NEED(p->cx, u);
    u->list = list;
    pthread_mutex_init(&u->lock, NULL);
    *out = u;
    return SPARTA_OK;
}

void sp_unverified_free(sp_unverified *u)
{
    if (u) pthread_mutex_destroy(&u->lock);
}

static sparta_status verify(sparta_ctx *cx, const sp_weight *w)
{
    for (const sp_index *i = w->indices->list; i; i = i->next) memcpy(i->to, i->from, i->bytes);
    const sparta_status s = sp_packed_verify(cx, &w->pack);
    if (s == SPARTA_OK || s == SPARTA_E_MEMORY || s == SPARTA_E_CANCELLED) return s;
    return sp_fail(cx, SPARTA_E_FORMAT, "weight '%.200s': %s; the file is damaged, compile it again", w->name,
                   sparta_message(cx));
}

sparta_status sp_package_packed(sparta_ctx *cx, const sp_weight *w, const sp_packed **out)
{
    sp_unverified *u = w->indices;
    sparta_status s = SPARTA_OK;
    if (u && !atomic_load_explicit(&u->good, memory_order_acquire)) {
        pthread_mutex_lock(&u->lock);
        if (!atomic_load_explicit(&u->good, memory_order_relaxed)) s = verify(cx, w);
        if (s == SPARTA_OK) atomic_store_explicit(&u->good, true, memory_order_release);
        pthread_mutex_unlock(&u->lock);
    }
    if (s == SPARTA_OK) *out = &w->pack;
    return s;
}

/* ------------------------------------------------------------------ all of them, by a team */

typedef struct work {
    sparta_ctx *cx; /* whose cancellation counts */
    size_t memory;  /* of it, for each thread */
    const sparta_package *p;
    atomic_int next;
} work;

/* A context serves one thread: each has its own, for messages that nobody reads. What fails here is told by whoever looks next. */
static void verify_some(void *arg, int thread)
{
    work *all = arg;
    const sp_packed *packed;
    const sparta_ctx_options options = {
        .size = sizeof options, .max_memory = all->memory, .cache_dir = "", .compiler = ""};
    sparta_ctx *own = sparta_ctx_create(&options);
    (void)thread;
    for (int i;
         own && !sp_ctx_cancelled(all->cx) && (i = atomic_fetch_add(&all->next, 1)) < all->p->n_weights;)
        if (all->p->weight[i].indices && sp_package_packed(own, &all->p->weight[i], &packed) != SPARTA_OK)
            break;
    sparta_ctx_free(own);
}

sparta_status sp_package_ready(sparta_ctx *cx, const sparta_package *p, sp_pool *team)
{
    work all = {.cx = cx, .p = p};
    const sp_packed *packed;
    bool some = false;
    for (int i = 0; i < p->n_weights && !some; i++)
        some =
            p->weight[i].indices && !atomic_load_explicit(&p->weight[i].indices->good, memory_order_relaxed);
    /* What is left of the budget, shared: where that is too little, the loop below says so. */
    all.memory = SP_MAX((sp_ctx_budget(cx) - SP_MIN(sp_ctx_memory(cx), sp_ctx_budget(cx))) /
                            (size_t)sp_pool_threads(team),
                        1);
    if (some) sp_pool_run(team, verify_some, &all);
    SP_TRY(sp_check_cancel(cx));
    for (int i = 0; i < p->n_weights; i++)
        if (sp_package_packed(cx, &p->weight[i], &packed) != SPARTA_OK)
            return p->path ? sp_fail_in(cx, "%s", p->path) : sp_ctx_status(cx);
    return SPARTA_OK;
}
