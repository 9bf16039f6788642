/* A closed- or open-loop HTTP/1.1 load generator on one core: keep-alive connections, one request each at a time,
 * every answer checked for value.
 *
 * load HOST PORT CONNECTIONS SECONDS RATE BODIES [PID]
 *   RATE 0: closed loop. Above: Poisson arrivals at that rate; an arrival that finds no free connection waits, and its
 *   time counts from its arrival, so a slow server cannot slow its own clients down.
 *   BODIES: a file of requests, repeated: u32 size of the request, the request (head and body), u32 count of the
 *   expected numbers, as many float32, u32 kind (0: decimal numbers after the last "marker" of the answer; 1: float32
 *   at the end of the body), u32 size of the marker, the marker.
 * LOAD_PATIENCE in the environment: seconds after which an arrival that found no free connection is dropped, as unsent.
 * Prints one line of JSON: answered, right, refused (429, 503), failed, seconds, latencies in microseconds of right
 * answers, Retry-After seen, CPU seconds of process PID meanwhile, and its memory in bytes at the end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct { char *sent; uint32_t size; float *want; uint32_t count, kind; char *marker; uint32_t marker_size; } Body;
typedef struct { int fd; int busy; uint32_t body; size_t written, have, need; double began; char *buffer; size_t room; int closes; } Connection;

static Body *bodies; static size_t body_count;
static double *latencies; static size_t latency_count, latency_room;
static size_t answered, right, refused, failed, wrong, reconnects, retry_after;
static struct sockaddr_in address; static int poll_fd;
static Connection *connections; static int connection_count;
static int *free_list; static int free_count;

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

static void die(const char *why) { perror(why); exit(2); }

static void load_bodies(const char *path) {
  FILE *f = fopen(path, "rb"); if (!f) die(path);
  size_t room = 0; uint32_t size;
  while (fread(&size, 4, 1, f) == 1) {
    if (body_count == room) bodies = realloc(bodies, (room = room ? room * 2 : 64) * sizeof(Body));
    Body *b = &bodies[body_count++];
    b->size = size; b->sent = malloc(size);
    if (fread(b->sent, 1, size, f) != size || fread(&b->count, 4, 1, f) != 1) die("bodies");
    b->want = malloc(4 * b->count + 4);
    if (fread(b->want, 4, b->count, f) != b->count || fread(&b->kind, 4, 1, f) != 1 || fread(&b->marker_size, 4, 1, f) != 1) die("bodies");
    b->marker = malloc(b->marker_size + 1);
    if (fread(b->marker, 1, b->marker_size, f) != b->marker_size) die("bodies");
  }
  fclose(f);
}

static int near(float got, float want) { return fabsf(got - want) <= 1e-3f + 1e-2f * fabsf(want); }

static int is_right(const Body *b, const char *body, size_t size) {
  if (b->kind == 1) {
    if (size < 4 * b->count) return 0;
    const char *at = body + size - 4 * b->count;
    for (uint32_t i = 0; i < b->count; i++) { float got; memcpy(&got, at + 4 * i, 4); if (!near(got, b->want[i])) return 0; }
    return 1;
  }
  const char *at = b->marker_size ? memmem(body, size, b->marker, b->marker_size) : body;
  if (!at) return 0;
  at += b->marker_size;
  for (uint32_t i = 0; i < b->count; i++) {
    while (*at == '[' || *at == ',' || *at == ' ' || *at == ':' || *at == '\n') at++;
    char *end; float got = strtof(at, &end);
    if (end == at || !near(got, b->want[i])) return 0;
    at = end;
  }
  return 1;
}

static void watch(Connection *c, uint32_t events, int how) {
  struct epoll_event e = {.events = events, .data.ptr = c};
  if (epoll_ctl(poll_fd, how, c->fd, &e) && errno != ENOENT) die("epoll_ctl");
}

static void open_connection(Connection *c) {
  c->fd = socket(AF_INET, SOCK_STREAM, 0); int one = 1;
  for (int tries = 0; connect(c->fd, (struct sockaddr *)&address, sizeof address); tries++) {
    if (tries > 200) die("connect");
    usleep(10000); close(c->fd); c->fd = socket(AF_INET, SOCK_STREAM, 0);
  }
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  c->have = c->need = 0; c->closes = 0;
  watch(c, EPOLLIN, EPOLL_CTL_ADD);
}

static void reopen(Connection *c) { close(c->fd); reconnects++; open_connection(c); }

static void push(Connection *c) {
  Body *b = &bodies[c->body];
  while (c->written < b->size) {
    ssize_t n = send(c->fd, b->sent + c->written, b->size - c->written, MSG_NOSIGNAL);
    if (n > 0) { c->written += n; continue; }
    if (n < 0 && errno == EAGAIN) { watch(c, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD); return; }
    reopen(c); c->written = 0;
  }
}

static void ask(Connection *c, double began) {
  static uint32_t next; c->body = next++ % body_count; c->busy = 1; c->began = began; c->written = 0; push(c);
}

static void note(double microseconds) {
  if (latency_count == latency_room) latencies = realloc(latencies, (latency_room = latency_room ? latency_room * 2 : 1 << 16) * sizeof(double));
  latencies[latency_count++] = microseconds;
}

static const char *field(const char *head, size_t size, const char *name) {
  const char *found = strcasestr(head, name);
  return found && found < head + size ? found + strlen(name) : NULL;
}

/* Returns 1 when the answer is complete. */
static int pull(Connection *c, int counts) {
  for (;;) {
    if (c->have + 65536 > c->room) c->buffer = realloc(c->buffer, (c->room = 2 * c->room + 131072) + 1);
    ssize_t n = recv(c->fd, c->buffer + c->have, c->room - c->have, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) {
      int lost = c->busy && c->have, again = c->busy && !c->have; /* closed before an answer: sent again, as clients do */
      reopen(c);
      if (lost) failed += counts, c->busy = 0;
      if (again) c->written = 0, push(c);
      return lost;
    }
    c->have += n; c->buffer[c->have] = 0;
    char *end = memmem(c->buffer, c->have, "\r\n\r\n", 4);
    if (!end) continue;
    size_t head = end + 4 - c->buffer;
    const char *length = field(c->buffer, head, "\r\ncontent-length:");
    size_t body;
    if (length) body = strtoul(length, NULL, 10);
    else { /* chunked: the answers of peers are small, so they are looked at when the last chunk is there */
      if (!memmem(c->buffer + head, c->have - head, "0\r\n\r\n", 5)) continue;
      body = c->have - head;
    }
    if (c->have < head + body) continue;
    answered++;
    int status = atoi(c->buffer + 9);
    if (status == 200) {
      if (is_right(&bodies[c->body], c->buffer + head, body)) { right += counts; if (counts) note((now() - c->began) * 1e6); }
      else wrong++;
    } else if (status == 429 || status == 503) {
      refused += counts; retry_after += counts && field(c->buffer, head, "\r\nretry-after:") != NULL;
    } else failed += counts;
    const char *keep = field(c->buffer, head, "\r\nconnection:");
    int closes = keep && strncasecmp(keep + 1, "close", 5) == 0;
    c->have = 0; c->busy = 0;
    if (closes) reopen(c);
    return 1;
  }
}

static int by_size(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return (x > y) - (x < y); }
static double quantile(double q) { return latency_count ? latencies[(size_t)(q * (latency_count - 1))] : 0; }

static double cpu_seconds(int pid) {
  char path[64], line[1024]; snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "r"); if (!f || !fgets(line, sizeof line, f)) return 0;
  fclose(f);
  unsigned long user, system; char *at = strrchr(line, ')');
  sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

static double exponential(double mean) { return -mean * log(1.0 - drand48()); }

int main(int argc, char **argv) {
  if (argc < 7) { fprintf(stderr, "load HOST PORT CONNECTIONS SECONDS RATE BODIES [PID...]\n"); return 2; }
  signal(SIGPIPE, SIG_IGN); srand48(7);
  address.sin_family = AF_INET; address.sin_port = htons(atoi(argv[2])); inet_pton(AF_INET, argv[1], &address.sin_addr);
  connection_count = atoi(argv[3]); double seconds = atof(argv[4]), rate = atof(argv[5]);
  load_bodies(argv[6]);
  poll_fd = epoll_create1(0);
  connections = calloc(connection_count, sizeof(Connection)); free_list = calloc(connection_count, sizeof(int));
  for (int i = 0; i < connection_count; i++) { open_connection(&connections[i]); if (rate) free_list[free_count++] = i; }
  const char *patient = getenv("LOAD_PATIENCE"); double patience = patient ? atof(patient) : 0; size_t unsent = 0;
  double *waiting = NULL; size_t first = 0, last = 0, room = 0;
  double start = now(), warm = start + fmin(1.0, seconds * 0.2), end = warm + seconds, next = start;
  double cpu = 0; int counting = 0;
  if (!rate) for (int i = 0; i < connection_count; i++) ask(&connections[i], now());
  struct epoll_event events[512];
  for (double t = start; t < end; t = now()) {
    if (!counting && t >= warm) { counting = 1; for (int i = 7; i < argc; i++) cpu -= cpu_seconds(atoi(argv[i])); }
    if (rate) {
      for (; next <= t; next += exponential(1.0 / rate)) {
        if (last == room) waiting = realloc(waiting, (room = room ? room * 2 : 1 << 16) * sizeof(double));
        waiting[last++] = next;
      }
      while (patience && first < last && t - waiting[first] > patience) first++, unsent += counting;
      while (first < last && free_count) ask(&connections[free_list[--free_count]], waiting[first++]);
    }
    int wait = 20;
    if (rate) wait = next - t > 0.001 ? 1 : 0;
    int n = epoll_wait(poll_fd, events, 512, wait);
    for (int i = 0; i < n; i++) {
      Connection *c = events[i].data.ptr;
      if (events[i].events & EPOLLOUT) { watch(c, EPOLLIN, EPOLL_CTL_MOD); push(c); }
      if (events[i].events & ~EPOLLOUT && pull(c, counting)) {
        if (!rate) ask(c, now()); else free_list[free_count++] = c - connections;
      }
    }
  }
  double took = now() - warm, memory = 0;
  for (int i = 7; i < argc; i++) {
    cpu += cpu_seconds(atoi(argv[i]));
    char path[64]; long pages = 0; snprintf(path, sizeof path, "/proc/%s/statm", argv[i]);
    FILE *f = fopen(path, "r"); if (f) { if (fscanf(f, "%*d %ld", &pages) != 1) pages = 0; fclose(f); }
    memory += (double)pages * sysconf(_SC_PAGESIZE);
  }
  qsort(latencies, latency_count, sizeof(double), by_size);
  printf("{\"right\": %zu, \"wrong\": %zu, \"refused\": %zu, \"failed\": %zu, \"retry_after\": %zu, \"reconnects\": %zu, \"seconds\": %.6f, "
         "\"unsent\": %zu, \"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"cpu_seconds\": %.4f, \"memory\": %.0f}\n",
         right, wrong, refused, failed, retry_after, reconnects, took, unsent + last - first, quantile(.5), quantile(.99), quantile(.999), cpu, memory);
  return 0;
}
