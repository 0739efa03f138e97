/* Callers that launch loops of all sizes at once, with breaks in which workers fall asleep, other numbers of
 * threads now and then, and a fork. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  void *sync_handle;
  int num_task;
} Group;
typedef int (*Task)(int task, Group *group, void *data);

extern void *__TVMBackendParallelLaunch;

typedef struct {
  int type;
  unsigned padding;
  long long integer;
} Any;
extern int __tvm_ffi_relay_layout_threads(void *self, const Any *arguments, int count, Any *result);

enum { MOST = 300 };

typedef struct {
  int runs[MOST];
  int plain; /* Written by task 0 before the launch returns, read after it: a race if the join is none. */
  atomic_int total, groups;
} Job;

static int body(int task, Group *group, void *data) {
  Job *job = data;
  job->runs[task] += 1;
  if (task == group->num_task - 1) job->plain += 1;
  atomic_fetch_add(&job->total, 1);
  atomic_store(&job->groups, group->num_task);
  return task == 7 ? 7 : 0;
}

static int calls(unsigned seed, int launches) {
  int (*launch)(Task, void *, int) = (int (*)(Task, void *, int))__TVMBackendParallelLaunch;
  static const int counts[] = {0, 1, 2, 3, 4, 5, 8, 0, 0, 299};
  Job *job = calloc(1, sizeof *job);
  for (int number = 0; number < launches; ++number) {
    seed = seed * 1664525u + 1013904223u;
    int count = counts[(seed >> 16) % 10];
    *job = (Job){0};
    int code = launch(body, job, count);
    int tasks = atomic_load(&job->groups);
    int wrong = (count && tasks != count) || atomic_load(&job->total) != tasks || job->plain != 1 ||
                code != (tasks > 7 ? 7 : 0);
    for (int task = 0; task < tasks; ++task) wrong |= job->runs[task] != 1;
    if (wrong) {
      printf("launch %d of %d tasks: %d ran, code %d\n", number, count, atomic_load(&job->total), code);
      return 1;
    }
    if ((seed >> 9) % 512 == 0) {
      Any wanted = {1, 0, (seed >> 20) % 7}, nothing;
      __tvm_ffi_relay_layout_threads(NULL, &wanted, 1, &nothing);
    }
    if ((seed >> 8) % 512 == 0) nanosleep(&(struct timespec){0, 3000000}, NULL);
  }
  free(job);
  return 0;
}

static void *caller(void *argument) {
  return (void *)(long)calls((unsigned)(long)argument, 20000);
}

int main(void) {
  pthread_t callers[3];
  int failed = calls(1, 1000);
#ifdef FORKS /* Sanitizers do not take threads that start in a child, or locks of their own left held there. */
  pid_t child = fork();
  if (child == 0) _exit(calls(2, 1000));
  int status;
  waitpid(child, &status, 0);
  failed |= status != 0;
#endif
  for (long number = 0; number < 3; ++number) pthread_create(&callers[number], NULL, caller, (void *)(number + 3));
  for (int number = 0; number < 3; ++number) {
    void *result;
    pthread_join(callers[number], &result);
    failed |= result != NULL;
  }
  puts(failed ? "failed" : "all right");
  return failed;
}
