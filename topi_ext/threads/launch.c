/* Fork and join for the parallel loops of one library of kernels, in place of TVM's thread pool.
 *
 * TVM's pool gives each thread one task and yields the processor while it waits, so that another process, of
 * whatever priority, has it for milliseconds at every parallel loop. Here a thread that waits spins first, and
 * the caller does itself what no other thread has begun.
 *
 * Each task has a slot, which goes from OPEN to TAKEN by one compare-and-swap and then to DONE; its number of
 * the job tells late readers apart. What a job is stays as it is until all its slots are done.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __GLIBC__
/* As old as the machine allows: newer names of the same functions would keep the library from older systems. */
#if defined(__x86_64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver pthread_create, pthread_create@GLIBC_2.17");
__asm__(".symver pthread_join, pthread_join@GLIBC_2.17");
#endif
#endif

/* TVM's c_backend_api.h. */
typedef struct {
  void *sync_handle;
  int32_t num_task;
} Group;
typedef int (*Task)(int task, Group *group, void *data);

/* The part of TVM's c_api.h that a function of one integer needs. */
typedef struct {
  int32_t type;
  uint32_t padding;
  int64_t integer;
} Any;

enum { MOST_THREADS = 256, OPEN = 0, TAKEN = 1, DONE = 2, STATES = 4 };

/* How long a thread spins for work, and the caller for threads that are at work, before it sleeps. */
static const int64_t SPIN_NANOSECONDS = 1000000;
static const struct timespec NAP = {0, 50000};

typedef struct {
  _Alignas(64) atomic_uint_fast64_t state;
} Slot;

static Slot slots[MOST_THREADS];
static pthread_t workers[MOST_THREADS];
static atomic_int threads;
static int started;

static Task job_task;
static void *job_data;
static Group job_group;
static uint64_t job_number;
static atomic_int job_code;

static atomic_flag busy = ATOMIC_FLAG_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static atomic_int sleeping;
static atomic_int stopping;

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int is_open(Slot *slot) {
  uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
  return state != 0 && state % STATES == OPEN;
}

/* Run the task of a slot unless somebody else has taken it. */
static int take(int task) {
  Slot *slot = &slots[task];
  uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
  if (state == 0 || state % STATES != OPEN) return 0;
  if (!atomic_compare_exchange_strong_explicit(&slot->state, &state, state + TAKEN, memory_order_acquire,
                                               memory_order_relaxed))
    return 0;
  int code = job_task(task, &job_group, job_data);
  if (code) atomic_store_explicit(&job_code, code, memory_order_relaxed);
  atomic_store_explicit(&slot->state, state + DONE, memory_order_release);
  return 1;
}

static void sleep_until_open(Slot *slot) {
  pthread_mutex_lock(&mutex);
  atomic_fetch_add(&sleeping, 1);
  /* The caller opens the slot, then looks whether anybody sleeps; here it is the other way round. */
  atomic_thread_fence(memory_order_seq_cst);
  while (!is_open(slot) && !atomic_load(&stopping)) pthread_cond_wait(&wake, &mutex);
  atomic_fetch_sub(&sleeping, 1);
  pthread_mutex_unlock(&mutex);
}

static void *work(void *argument) {
  int task = (int)(intptr_t)argument;
  while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
    int64_t until = now() + SPIN_NANOSECONDS;
    int taken = 0;
    while (!(taken = take(task)) && now() < until && !atomic_load_explicit(&stopping, memory_order_relaxed))
      for (int turn = 0; turn < 16 && !is_open(&slots[task]); ++turn) relax();
    if (!taken) sleep_until_open(&slots[task]);
  }
  return NULL;
}

static void wait_for(Slot *slot, uint64_t done) {
  int64_t until = 0;
  for (int turn = 1; atomic_load_explicit(&slot->state, memory_order_acquire) != done; ++turn) {
    relax();
    if (turn % 16) continue;
    if (!until) until = now() + SPIN_NANOSECONDS;
    else if (now() > until) nanosleep(&NAP, NULL); /* Its thread may need this processor. */
  }
}

static int all_threads(void) {
  int count = atomic_load_explicit(&threads, memory_order_relaxed);
  if (count > 0) return count;
  const char *wanted = getenv("TVM_NUM_THREADS");
  count = wanted ? atoi(wanted) : 0;
  cpu_set_t processors;
  if (count < 1 && sched_getaffinity(0, sizeof processors, &processors) == 0) count = CPU_COUNT(&processors);
  if (count < 1) count = 1;
  if (count > MOST_THREADS) count = MOST_THREADS;
  atomic_store_explicit(&threads, count, memory_order_relaxed);
  return count;
}

static int in_turn(Task task, void *data, int count) {
  Group group = {NULL, count};
  int code = 0;
  for (int number = 0; number < count; ++number) {
    int found = task(number, &group, data);
    if (found) code = found;
  }
  return code;
}

static int launch(Task task, void *data, int count) {
  int least = count > 0 ? count : 1;
  if (count <= 0) count = all_threads();
  if (count == 1 || count > MOST_THREADS || atomic_load(&stopping)) return in_turn(task, data, least);
  /* Another thread of the program, or a task, is in here: the processors have work. */
  if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) return in_turn(task, data, least);
  while (started < count - 1 &&
         pthread_create(&workers[started], NULL, work, (void *)(intptr_t)(started + 1)) == 0)
    ++started;
  job_task = task;
  job_data = data;
  job_group = (Group){NULL, count};
  atomic_store_explicit(&job_code, 0, memory_order_relaxed);
  uint64_t open = ++job_number * STATES;
  for (int number = 1; number < count; ++number)
    atomic_store_explicit(&slots[number].state, open, memory_order_release);
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&sleeping, memory_order_relaxed) > 0) {
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&mutex);
  }
  int code = task(0, &job_group, data);
  for (int number = 1; number < count; ++number) take(number);
  for (int number = 1; number < count; ++number) wait_for(&slots[number], open + DONE);
  if (!code) code = atomic_load_explicit(&job_code, memory_order_relaxed);
  atomic_flag_clear_explicit(&busy, memory_order_release);
  return code;
}

#ifdef AMX
/* Linux lets a process use the registers of AMX once it has asked for them (ARCH_REQ_XCOMP_PERM). */
__attribute__((constructor)) static void ask_for_amx(void) { syscall(SYS_arch_prctl, 0x1023, 18); }
#endif

/* What kernels call. TVM's loader looks for this name in a library to put its own function there. */
__attribute__((visibility("hidden"))) void *__TVMBackendParallelLaunch = (void *)launch;

static void end_workers(void) {
  pthread_mutex_lock(&mutex);
  atomic_store(&stopping, 1);
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&mutex);
  for (int number = 0; number < started; ++number) pthread_join(workers[number], NULL);
  started = 0;
  atomic_store(&stopping, 0);
}

/* relay_layout_threads(count): how many threads a loop has from now on, 0 for all; of fewer than there are,
 * none is left, and the next loop starts them anew. */
__attribute__((visibility("default"))) int __tvm_ffi_relay_layout_threads(void *self, const Any *arguments,
                                                                           int32_t count, Any *result) {
  (void)self;
  int64_t wanted = count > 0 ? arguments[0].integer : 0;
  if (wanted < 0) wanted = 0;
  if (wanted > MOST_THREADS) wanted = MOST_THREADS;
  while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) nanosleep(&NAP, NULL);
  if (wanted && wanted <= started) end_workers();
  atomic_store(&threads, (int)wanted);
  atomic_flag_clear_explicit(&busy, memory_order_release);
  *result = (Any){0, 0, 0};
  return 0;
}

/* A child of fork() has none of the threads. */
static void forget(void) {
  started = 0;
  job_number = 0;
  for (int number = 0; number < MOST_THREADS; ++number) atomic_store(&slots[number].state, 0);
  atomic_store(&sleeping, 0);
  atomic_flag_clear(&busy);
  mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  wake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

__attribute__((constructor)) static void prepare(void) { pthread_atfork(NULL, NULL, forget); }

/* Nothing may run in here once the library is gone. */
__attribute__((destructor)) static void stop(void) { end_workers(); }
