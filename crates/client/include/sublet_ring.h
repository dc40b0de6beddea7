/* The page ring of Sublet: a daemon's memory for programs on the same host, a page at a time. */
/* Written by cbindgen from src/ffi; a test of it says how to write it anew. */

#ifndef SUBLET_RING_H
#define SUBLET_RING_H

#include <stddef.h>
#include <stdint.h>

// Bytes of a page.
#define SUBLET_PAGE_BYTES 4096

// The most pages of a run.
#define SUBLET_RUN_PAGES_MAX 64

// A pool that keeps its pages until they are flushed.
#define SUBLET_POOL_PERSISTENT 1

// A pool that is shared by everybody who may use its name.
#define SUBLET_POOL_SHARED 2

// A pool whose pages stay when they are fetched.
#define SUBLET_POOL_KEEPING 4

// Success: a page was stored, or hit.
#define SUBLET_OK 0

// A put replaced an older page.
#define SUBLET_REPLACED 1

// A get found no page.
#define SUBLET_MISS 2

// The connection is closed: connect again.
#define SUBLET_GONE -1

// Nobody listens at that path.
#define SUBLET_UNREACHABLE -2

// The other side speaks no ring of this version.
#define SUBLET_GARBLED -3

// A pointer is null, or a number makes no sense.
#define SUBLET_WRONG -4

// The batch holds as many requests as the ring has entries: run it first.
#define SUBLET_BATCH_FULL -5

// The batch holds as many pages as the ring has page slots: run it first.
#define SUBLET_BATCH_PAGES_FULL -6

// This user may not open the socket, or pass the folders on the way to it.
#define SUBLET_FORBIDDEN -7

// The shape is impossible: a ring has a power of two of entries, 4096 at most, and 1 to 65536 page slots.
#define SUBLET_SHAPE -8

// Another process connected, and this one was forked from it: connect here, too.
#define SUBLET_FORKED -9

// The daemon rejected this program. The reason's number is subtracted from this:
//
// - 1: another version
// - 2: the user may not connect
// - 3: all connections are taken
// - 4: no memory or descriptor left
// - 5: no greeting
#define SUBLET_REJECTED -20

// The daemon refused for now. The reason's number is subtracted from this:
//
// - 1: no memory now
// - 2: the tenant is at its target
// - 3: the tenant is frozen
// - 4: the shared pool is not for it
// - 5: persistent pools need `spill`
// - 6: too many pools
// - 7: the disk of a persistent pool failed
// - 8: its file is full
// - 9: the daemon ended the pool
// - 10: it serves the tenant no more
#define SUBLET_REFUSED -100

// The call makes no sense to the daemon. The fault's number is subtracted from this:
//
// - 64: no such verb
// - 65: no such pool
// - 66: no such page slots
// - 67: no run of 1 to 64 pages
// - 68: no such flag
// - 69: shared and persistent
// - 70: a shared pool needs a name and only such a pool has one
// - 71: what must be zero is not
#define SUBLET_FAULTY -200

// A connection to a tenant's ring.
typedef struct sublet_ring sublet_ring;

// The name of a page: pool, object and index.
typedef struct {
  // The pool's handle.
  uint64_t pool;
  // The object.
  uint64_t object;
  // The page in the object.
  uint32_t index;
} sublet_key;

// The outcome of each page of a run: bit n stands for page n.
typedef struct {
  // The pages that were stored, or hit.
  uint64_t done;
  // The pages of a put that replaced older ones.
  uint64_t replaced;
} sublet_run;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the ring that this library speaks.
uint32_t sublet_version(void);

// Connects to the ring that listens at `path`. `entries`, a power of two up to 4096, and `page_slots`, up to 65536,
// say how large the ring should be. 0 means the usual size. The daemon may grant less. Use a ring on one thread at a
// time, and only in the process that connected. In a process that is forked from it, calls return `SUBLET_FORKED`. On
// success, close `*ring` by `sublet_close`.
//
// # Safety
//
// `path` must be a string that ends in a zero byte, and `ring` a place to write to. Either may be null.
int sublet_connect(const char *path,
                   uint32_t entries,
                   uint32_t page_slots,
                   sublet_ring **ring);

// Closes a connection. `ring` may be null.
//
// # Safety
//
// `ring` must come from `sublet_connect`. Do not use it afterwards, nor any page of it.
void sublet_close(sublet_ring *ring);

// Returns the size of the ring: how many requests and how many pages a batch may hold. The call does not end a batch.
//
// # Safety
//
// `ring` must be open. `entries` and `page_slots` must be places to write to.
int sublet_shape(const sublet_ring *ring,
                 uint32_t *entries,
                 uint32_t *page_slots);

// Makes a pool, or joins the shared pool of that name. `shared_name` is the 16 bytes of a UUID, or null for a pool
// that ends with the connection. `flags` are those named `SUBLET_POOL_`.
//
// # Safety
//
// `ring` must be open, `shared_name` null or 16 bytes, and `pool` a place to write to.
int sublet_create_pool(sublet_ring *ring,
                       uint32_t flags,
                       const uint8_t *shared_name,
                       uint64_t *pool);

// Destroys a pool and all its pages.
//
// # Safety
//
// `ring` must be open.
int sublet_destroy_pool(sublet_ring *ring, uint64_t pool);

// Stores a page of `SUBLET_PAGE_BYTES`.
//
// # Safety
//
// `ring` must be open, and `page` a page to read.
int sublet_put(sublet_ring *ring, sublet_key key, const void *page);

// Fetches a page of `SUBLET_PAGE_BYTES`. Only `SUBLET_OK` changes the page.
//
// # Safety
//
// `ring` must be open, and `page` a page to write.
int sublet_get(sublet_ring *ring, sublet_key key, void *page);

// Stores `count` pages at consecutive indices, `SUBLET_RUN_PAGES_MAX` at most. `*run` says which were stored. The
// returned number says why the first refused page was refused.
//
// # Safety
//
// `ring` must be open, `pages` must hold `count` pages, and `run` must be a place to write to.
int sublet_put_run(sublet_ring *ring,
                   sublet_key first,
                   uint32_t count,
                   const void *pages,
                   sublet_run *run);

// Fetches `count` pages from consecutive indices, `SUBLET_RUN_PAGES_MAX` at most. `*run` says which pages hit. The
// call does not change the others.
//
// # Safety
//
// `ring` must be open, `pages` must have room for `count` pages, and `run` must be a place to write to.
int sublet_get_run(sublet_ring *ring,
                   sublet_key first,
                   uint32_t count,
                   void *pages,
                   sublet_run *run);

// Flushes a page. It is no error if the page was not there.
//
// # Safety
//
// `ring` must be open.
int sublet_flush_page(sublet_ring *ring, sublet_key key);

// Flushes all pages of an object.
//
// # Safety
//
// `ring` must be open.
int sublet_flush_object(sublet_ring *ring, uint64_t pool, uint64_t object);

// Begins a batch of requests that are sent together. Any other call ends the batch.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_begin(sublet_ring *ring);

// Adds a put to the batch. Write the page to `*page` before you run the batch. Returns the request's place in the
// batch, counted from 0.
//
// # Safety
//
// `ring` must be open, and `page` a place to write to.
int sublet_batch_put(sublet_ring *ring,
                     sublet_key key,
                     void **page);

// Adds a get to the batch. Returns the request's place in the batch.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_get(sublet_ring *ring, sublet_key key);

// Adds a put of `count` pages at consecutive indices to the batch. Write the pages to `*pages`, one behind the other,
// before you run the batch. Returns the request's place in the batch.
//
// # Safety
//
// `ring` must be open, and `pages` a place to write to.
int sublet_batch_put_run(sublet_ring *ring,
                         sublet_key first,
                         uint32_t count,
                         void **pages);

// Adds a get of `count` pages at consecutive indices to the batch. Returns the request's place in the batch.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_get_run(sublet_ring *ring,
                         sublet_key first,
                         uint32_t count);

// Adds a flush of a page to the batch. Returns the request's place in the batch.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_flush_page(sublet_ring *ring, sublet_key key);

// Adds a flush of `count` pages at consecutive indices to the batch. Returns the request's place in the batch.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_flush_run(sublet_ring *ring,
                           sublet_key first,
                           uint32_t count);

// Adds a flush of all pages of an object to the batch. Returns the request's place in the batch.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_flush_object(sublet_ring *ring, uint64_t pool, uint64_t object);

// Returns how many requests the batch holds. The batch must have begun and not have run yet.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_len(sublet_ring *ring);

// Runs the batch, and waits until all of it is answered.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_run(sublet_ring *ring);

// Returns the outcome of the request at `place` in the last batch. For a run of pages it is the outcome of the first
// page.
//
// # Safety
//
// `ring` must be open.
int sublet_batch_outcome(sublet_ring *ring,
                         uint32_t place);

// Returns the outcome of the run of pages at `place` in the last batch, page by page, as `sublet_put_run` and
// `sublet_get_run` do.
//
// # Safety
//
// `ring` must be open, and `run` a place to write to.
int sublet_batch_outcome_of_run(sublet_ring *ring,
                                uint32_t place,
                                sublet_run *run);

// Returns the page of the get at `place` in the last batch, or null if it did not hit. The page stays until the next
// call that asks the daemon for something or begins a batch.
//
// # Safety
//
// `ring` must be open.
const void *sublet_batch_page(sublet_ring *ring,
                              uint32_t place);

// Returns page `n` of the run of gets at `place` in the last batch, or null if it did not hit. The page stays as long
// as that of `sublet_batch_page`.
//
// # Safety
//
// `ring` must be open.
const void *sublet_batch_page_of_run(sublet_ring *ring,
                                     uint32_t place,
                                     uint32_t n);

// Writes the meaning of a number to `text`, in words that end in a zero byte. Writes no more than `bytes`. Returns how
// many bytes the whole text takes.
//
// # Safety
//
// `text` must have room for `bytes`, or be null.
size_t sublet_text(int code,
                   char *text,
                   size_t bytes);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SUBLET_RING_H */
