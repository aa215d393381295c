// Requests outstanding on one flow: which of them are answered, late, lost or answered twice. At most WINDOW_SLOTS at once.
#ifndef BENCH_WINDOW_H
#define BENCH_WINDOW_H

#include "meter.h"

enum { WINDOW_SLOTS = 1024, WINDOW_MAX = 512 };
enum { SLOT_DONE, SLOT_WAITING, SLOT_ABANDONED };

struct window {
	int outstanding;
	uint64_t sequence; // of the last request
	uint64_t highest;  // answered
	struct { uint64_t sequence, sent_at; int state; } slots[WINDOW_SLOTS];
};

// window_request makes the next message in place, sent now. A request that is still not answered when its slot comes round again has been
// overtaken by a thousand others: it is lost.
static inline void window_request(struct window *w, struct meter *m, struct message *out, uint64_t now) {
	message_make(out, MESSAGE_REQUEST, 0, ++w->sequence);
	if (w->slots[w->sequence % WINDOW_SLOTS].state == SLOT_WAITING) {
		w->outstanding--;
		m->lost++;
	}
	w->slots[w->sequence % WINDOW_SLOTS].sequence = w->sequence;
	w->slots[w->sequence % WINDOW_SLOTS].sent_at = now;
	w->slots[w->sequence % WINDOW_SLOTS].state = SLOT_WAITING;
	w->outstanding++;
	m->sent++;
}

// window_answer judges what came back; 1 when it answers a request that waited.
static inline int window_answer(struct window *w, struct meter *m, const struct message *in, uint64_t now) {
	struct message want;
	message_make(&want, MESSAGE_REQUEST, 0, in->sequence);
	if (memcmp(in, &want, MESSAGE_SIZE) != 0 || in->sequence == 0 || in->sequence > w->sequence) {
		m->corrupt++;
		return 0;
	}
	uint64_t at = in->sequence % WINDOW_SLOTS;
	int state = w->slots[at].sequence == in->sequence ? w->slots[at].state : SLOT_DONE;
	w->slots[at].state = SLOT_DONE;
	if (state == SLOT_DONE) {
		m->duplicated++;
		return 0;
	}
	if (state == SLOT_ABANDONED) { // late after all
		m->lost--;
		m->out_of_order++;
		return 0;
	}
	if (in->sequence < w->highest)
		m->out_of_order++;
	else
		w->highest = in->sequence;
	w->outstanding--;
	meter_answer(m, w->slots[at].sent_at, now);
	return 1;
}

// window_abandon gives up all that waits.
static inline void window_abandon(struct window *w, struct meter *m) {
	for (int i = 0; i < WINDOW_SLOTS; i++) {
		if (w->slots[i].state != SLOT_WAITING)
			continue;
		w->slots[i].state = SLOT_ABANDONED;
		w->outstanding--;
		m->lost++;
		m->timeouts++;
	}
}

#endif
