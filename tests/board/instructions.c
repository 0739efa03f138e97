/* A plugin of qemu's user emulation (qemu 7.2, Debian 12's) that counts executed instructions.
 *
 * Arguments: out=FILE and mark=N. Whenever the program closes file descriptor N, which is none, the number of
 * instructions since the last time is written to FILE, one line each.
 *
 * The declarations are those of qemu-plugin.h that are needed; Debian ships no such header. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#define CLOSE 57 /* Linux's number of the system call on 64-bit ARM. */

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

typedef void (*translated_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*executed_t)(unsigned int, void *);
typedef void (*system_call_t)(qemu_plugin_id_t, unsigned int, int64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                              uint64_t, uint64_t, uint64_t, uint64_t);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated_t);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed_t, enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, system_call_t);

PUBLIC int qemu_plugin_version = 1;

static FILE *out;
static int32_t mark;
static uint64_t count;

/* The instructions of the block are the address that is passed. */
static void executed(unsigned int processor, void *instructions)
{
    __atomic_fetch_add(&count, (uintptr_t)instructions, __ATOMIC_RELAXED);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    void *instructions = (void *)(uintptr_t)qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, QEMU_PLUGIN_CB_NO_REGS, instructions);
}

static void called(qemu_plugin_id_t id, unsigned int processor, int64_t number, uint64_t first, uint64_t b,
                   uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    if (number != CLOSE || (int32_t)first != mark)
        return;
    fprintf(out, "%" PRIu64 "\n", __atomic_exchange_n(&count, 0, __ATOMIC_RELAXED));
    fflush(out);
}

PUBLIC int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int arguments, char **values)
{
    for (int i = 0; i < arguments; i++) {
        if (strncmp(values[i], "out=", 4) == 0)
            out = fopen(values[i] + 4, "w");
        else if (strncmp(values[i], "mark=", 5) == 0)
            mark = atoi(values[i] + 5);
    }
    if (out == NULL || mark >= 0)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
