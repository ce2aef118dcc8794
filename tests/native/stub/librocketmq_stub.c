/* A stand-in for librocketmq: the documented C signatures over a broker in memory.
 *
 * It does what ordered messaging over the C API hangs on, and where the real library is dangerous
 * so is this: an index out of range aborts, a retry goes to the next queue, a message that is not
 * destroyed stays alive, and exiting while something runs aborts. -DOLD leaves out what no release
 * up to 2.2.0 has, -DANCIENT ordered sends. Calls that begin with Stub are for tests.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOPICS = 64, QUEUES = 16, STORED = 4096, PROPERTIES = 32 };
enum { OK = 0, NULL_POINTER = 1, START_FAILED = 10, ORDERLY_FAILED = 13 };

typedef struct { char *name, *value; } Property;
typedef struct {
  char* topic;
  char* body;
  int length, count, queue, tries;
  long long offset;
  Property properties[PROPERTIES];
} Message;
typedef struct { int status; char id[256]; long long offset; } Result;
typedef struct { Message* messages[STORED]; int count; } Queue;
typedef struct { char name[256]; int size; Queue queues[QUEUES]; } Topic;
typedef struct { char* group; int started; } Producer;
typedef int (*Selector)(int size, Message* message, void* argument);
typedef struct Consumer Consumer;
typedef int (*Callback)(Consumer* consumer, Message* message);
struct Consumer {
  char* topics[TOPICS];
  int count, started, stop;
  Callback callback;
  pthread_t thread;
  int next[TOPICS][QUEUES];
  double due[TOPICS][QUEUES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static Topic topics[TOPICS];
static int topic_count, alive, running, failing, failing_stores, held, waiting, ids;
static double retry_after = 0.01;
static __thread char last_error[256];

static int failed(int status, const char* text) {
  snprintf(last_error, sizeof last_error, "%s", text);
  return status;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static Topic* find(const char* name) {
  for (int i = 0; i < topic_count; i++)
    if (!strcmp(topics[i].name, name)) return &topics[i];
  return NULL;
}

/* --- messages ------------------------------------------------------------------------------- */

static const char* property(Message* message, const char* name) {
  for (int i = 0; i < message->count; i++)
    if (!strcmp(message->properties[i].name, name)) return message->properties[i].value;
  return "";
}

static void clear(Message* message) {
  for (int i = 0; i < message->count; i++) {
    free(message->properties[i].name);
    free(message->properties[i].value);
  }
  free(message->topic);
  free(message->body);
  free(message);
}

Message* CreateMessage(const char* topic) {
  Message* message = calloc(1, sizeof *message);
  message->topic = strdup(topic);
  __atomic_add_fetch(&alive, 1, __ATOMIC_SEQ_CST);
  return message;
}

int DestroyMessage(Message* message) {
  if (!message) return NULL_POINTER;
  clear(message);
  __atomic_sub_fetch(&alive, 1, __ATOMIC_SEQ_CST);
  return OK;
}

int SetMessageTopic(Message* message, const char* topic) {
  free(message->topic);
  message->topic = strdup(topic);
  return OK;
}

int SetMessageProperty(Message* message, const char* name, const char* value) {
  if (!message || message->count == PROPERTIES) return NULL_POINTER;
  message->properties[message->count].name = strdup(name);
  message->properties[message->count++].value = strdup(value);
  return OK;
}

int SetByteMessageBody(Message* message, const char* body, int length) {
  if (!message) return NULL_POINTER;
  free(message->body);
  message->body = memcpy(calloc(1, length + 1), body, length);
  message->length = length;
  return OK;
}

const char* GetMessageTopic(Message* message) { return message->topic; }
const char* GetMessageBody(Message* message) { return message->body; }
const char* GetMessageProperty(Message* message, const char* name) {
  return property(message, name);
}
const char* GetMessageId(Message* message) { return property(message, "UNIQ_KEY"); }
int GetMessageQueueId(Message* message) { return message->queue; }
int GetMessageReconsumeTimes(Message* message) { return message->tries; }
int GetMessageStoreSize(Message* message) { return message->length + 91; }
long long GetMessageBornTimestamp(Message* message) { return 1700000000000LL + message->offset; }
long long GetMessageStoreTimestamp(Message* message) { return 1700000000001LL + message->offset; }
long long GetMessageQueueOffset(Message* message) { return message->offset; }
long long GetMessageCommitLogOffset(Message* message) { return message->offset * 100; }
const char* GetLatestErrorMessage(void) { return last_error; }
#ifndef OLD
int GetMessageBodyLength(Message* message) { return message->length; }
const char* GetMessageStoreHost(Message* message) { return message ? "what was freed" : NULL; }
#endif

/* --- producers ------------------------------------------------------------------------------ */

Producer* CreateProducer(const char* group) {
  Producer* producer = calloc(1, sizeof *producer);
  producer->group = strdup(group);
  return producer;
}

int StartProducer(Producer* producer) {
  if (!strcmp(producer->group, "cannot-start")) return failed(START_FAILED, "no such luck");
  producer->started = 1;
  __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
  return OK;
}

int ShutdownProducer(Producer* producer) {
  if (producer->started) __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
  producer->started = 0;
  return OK;
}

int DestroyProducer(Producer* producer) {
  free(producer->group);
  free(producer);
  return OK;
}

static int set(void* object, const char* text) { return object && text ? OK : NULL_POINTER; }
int SetProducerNameServerAddress(Producer* it, const char* text) { return set(it, text); }
int SetProducerInstanceName(Producer* it, const char* text) { return set(it, text); }
int SetProducerSendMsgTimeout(Producer* it, int millis) { return it && millis ? OK : NULL_POINTER; }
int SetProducerMaxMessageSize(Producer* it, int bytes) { return it && bytes ? OK : NULL_POINTER; }
int SetProducerSessionCredentials(Producer* it, const char* access, const char* secret,
                                  const char* channel) {
  return set(it, access) || set(it, secret) || set(it, channel) ? NULL_POINTER : OK;
}

#ifndef ANCIENT
static void store(Topic* topic, int index, Message* message, Result* result) {
  Queue* queue = &topic->queues[index];
  if (queue->count == STORED) abort();
  Message* copy = calloc(1, sizeof *copy);
  copy->topic = strdup(message->topic);
  copy->queue = index;
  copy->offset = queue->count;
  SetByteMessageBody(copy, message->body, message->length);
  for (int i = 0; i < message->count; i++)
    SetMessageProperty(copy, message->properties[i].name, message->properties[i].value);
  snprintf(result->id, sizeof result->id, "%016X", ++ids);
  SetMessageProperty(copy, "UNIQ_KEY", result->id);
  result->offset = copy->offset;
  queue->messages[queue->count++] = copy;
}

int SendMessageOrderly(Producer* producer, Message* message, Selector selector, void* argument,
                       int retries, Result* result) {
  if (!producer || !message || !selector || !argument || !result)
    return failed(NULL_POINTER, "null pointer");
  pthread_mutex_lock(&lock);
  waiting++;
  while (held) pthread_cond_wait(&released, &lock);
  waiting--;
  Topic* topic = find(message->topic);
  int size = topic ? topic->size : 0;
  pthread_mutex_unlock(&lock);
  if (!size) return failed(ORDERLY_FAILED, "No route info of this topic, ");
  int index = selector(size, message, argument);
  if (index < 0 || index >= size) abort();
  int status = ORDERLY_FAILED;
  pthread_mutex_lock(&lock);
  if (!strchr(message->topic, ' '))
    for (int attempt = 0; status != OK && attempt <= retries; attempt++) {
      int fails = failing > 0 && failing--;
      if (!fails || failing_stores) store(topic, (index + attempt) % size, message, result);
      if (!fails) status = OK;
    }
  pthread_mutex_unlock(&lock);
  return status == OK ? OK : failed(status, "No route info of this topic, ");
}
#endif

/* --- consumers ------------------------------------------------------------------------------ */

Consumer* CreatePushConsumer(const char* group) { return group ? calloc(1, sizeof(Consumer)) : 0; }
int SetPushConsumerNameServerAddress(Consumer* it, const char* text) { return set(it, text); }
int SetPushConsumerInstanceName(Consumer* it, const char* text) { return set(it, text); }
int SetPushConsumerThreadCount(Consumer* it, int count) { return it && count ? OK : NULL_POINTER; }
int SetPushConsumerMessageModel(Consumer* it, int model) { return it && model ? OK : NULL_POINTER; }
int SetPushConsumerSessionCredentials(Consumer* it, const char* access, const char* secret,
                                      const char* channel) {
  return set(it, access) || set(it, secret) || set(it, channel) ? NULL_POINTER : OK;
}

int Subscribe(Consumer* consumer, const char* topic, const char* tags) {
  if (!tags) return NULL_POINTER;
  consumer->topics[consumer->count++] = strdup(topic);
  return OK;
}

int RegisterMessageCallbackOrderly(Consumer* consumer, Callback callback) {
  if (!callback) return NULL_POINTER;
  consumer->callback = callback;
  return OK;
}

static Message* ready(Consumer* consumer, int t, int q) {
  Message* found = NULL;
  pthread_mutex_lock(&lock);
  Topic* topic = find(consumer->topics[t]);
  if (topic && q < topic->size && consumer->next[t][q] < topic->queues[q].count)
    found = topic->queues[q].messages[consumer->next[t][q]];
  pthread_mutex_unlock(&lock);
  return found && consumer->due[t][q] <= now() ? found : NULL;
}

static void* deliver(void* argument) {
  Consumer* consumer = argument;
  struct timespec pause = {0, 1000000};
  while (!__atomic_load_n(&consumer->stop, __ATOMIC_SEQ_CST)) {
    for (int t = 0; t < consumer->count; t++)
      for (int q = 0; q < QUEUES && !__atomic_load_n(&consumer->stop, __ATOMIC_SEQ_CST); q++) {
        Message* message = ready(consumer, t, q);
        if (!message) continue;
        if (consumer->callback(consumer, message) == OK) {
          consumer->next[t][q]++;
        } else {
          message->tries++;
          consumer->due[t][q] = now() + retry_after;
        }
      }
    nanosleep(&pause, NULL);
  }
  return NULL;
}

int StartPushConsumer(Consumer* consumer) {
  consumer->started = 1;
  __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
  return pthread_create(&consumer->thread, NULL, deliver, consumer);
}

int ShutdownPushConsumer(Consumer* consumer) {
  if (!consumer->started) return OK;
  __atomic_store_n(&consumer->stop, 1, __ATOMIC_SEQ_CST);
  pthread_join(consumer->thread, NULL);
  consumer->started = 0;
  __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
  return OK;
}

int DestroyPushConsumer(Consumer* consumer) {
  for (int i = 0; i < consumer->count; i++) free(consumer->topics[i]);
  free(consumer);
  return OK;
}

/* --- for tests ------------------------------------------------------------------------------ */

void StubTopic(const char* name, int size) {
  pthread_mutex_lock(&lock);
  Topic* topic = find(name);
  if (!topic) {
    if (topic_count == TOPICS) abort();
    topic = &topics[topic_count++];
    snprintf(topic->name, sizeof topic->name, "%s", name);
  }
  topic->size = size;
  pthread_mutex_unlock(&lock);
}

int StubStored(const char* topic, int queue) { return find(topic)->queues[queue].count; }
Message* StubMessage(const char* topic, int queue, int index) {
  return find(topic)->queues[queue].messages[index];
}
void StubFail(int times, int stores) { failing = times, failing_stores = stores; }
void StubRetryAfter(double seconds) { retry_after = seconds; }
int StubAlive(void) { return __atomic_load_n(&alive, __ATOMIC_SEQ_CST); }
int StubRunning(void) { return __atomic_load_n(&running, __ATOMIC_SEQ_CST); }
int StubWaiting(void) { return __atomic_load_n(&waiting, __ATOMIC_SEQ_CST); }

void StubHold(int holds) {
  pthread_mutex_lock(&lock);
  held = holds;
  pthread_cond_broadcast(&released);
  pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void leave(void) {
  if (running) {
    fprintf(stderr, "stub: exit while %d are running\n", running);
    abort();
  }
}
