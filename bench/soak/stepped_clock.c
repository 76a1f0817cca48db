/* Offsets the wall clock of one process, so that a soak test can step it (LD_PRELOAD).
 * VNETBENCH_CLOCK_OFFSET names a file with the offset in seconds. Other clocks stay as they are. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long read_offset(void) {
    const char *path = getenv("VNETBENCH_CLOCK_OFFSET");
    FILE *file = path ? fopen(path, "re") : NULL;
    long offset = 0;
    if (file && fscanf(file, "%ld", &offset) != 1)
        offset = 0;
    if (file)
        fclose(file);
    return offset;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += read_offset();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}
