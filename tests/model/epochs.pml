/*
 * A model of the protocol in specs/design/epochs.md: how a communicator's table of servers changes while
 * its operations go on.
 *
 * Every step of the world is one atomic step of one process, so that spin tries every order of them. Each
 * step advances something that never goes back, so a history cannot run for ever: where spin finds no
 * invalid end, all of them come to their end. tests/model/run.py says which worlds are tried, and which bugs are
 * planted.
 *
 *   SERVERS    that there are; with SPARE the last one joins while the operations run
 *   FAULTS     how many servers die; with CUTS also: a rank loses its lanes to a server that lives
 *   WAITS      bit o: operation o is large, and returns when it is stable; else its chunks are copied
 *   BLOCKS     bit r: rank r begins an operation only when the one before has returned
 *   IN_PLACE   results overwrite inputs, and may have come by half
 *   REDUCE     only rank 0 gets results
 *   HELD       a rank knows that an operation is stable by what it is told; else as soon as it is
 *   RANK_DIES  a fault may be the end of a rank too
 */
#define RANKS 3
#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef WAITS
#define WAITS 1
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
#define OPERATIONS 2
#define CHUNKS 4 /* two of each operation */
#define EPOCHS 4
#ifdef SPARE
#define FIRST_TABLE ((1 << (SERVERS - 1)) - 1)
#else
#define FIRST_TABLE ((1 << SERVERS) - 1)
#endif
#define STREAMS 36 /* EPOCHS * 3 servers * RANKS */

byte alive;  /* servers */
byte faults; /* that are still to come */
byte wrong;  /* the first rule that was broken */

/* Of each rank. */
byte closed[RANKS];   /* servers that it has closed its lanes to */
byte epoch[RANKS];    /* the last record that it has applied */
byte begun[RANKS];    /* operations */
byte promised[RANKS]; /* it begins none from here on before the next record */
byte returned[RANKS]; /* operations */
byte copied[RANKS];   /* operations whose chunks it keeps */
byte has[12];         /* [rank][chunk]: none, half, or all of the result */
byte aborted;         /* ranks */
#ifdef RANK_DIES
byte died;            /* ranks */
#endif
#if defined(RANK_DIES) || defined(CUTS)
byte gone[RANKS];     /* servers that have said GONE to it */
#endif

/* SEALED: what a rank has said last, and what of that rank 0 has heard. */
byte said[RANKS], heard[RANKS]; /* whether any */
byte said_dead[RANKS], heard_dead[RANKS];
byte said_epoch[RANKS], heard_epoch[RANKS];
byte said_begun[RANKS], heard_begun[RANKS];
byte said_join[RANKS], heard_join[RANKS];
byte said_done[STREAMS], heard_done[STREAMS];

/* What rank 0 says: ASK, and the records: EPOCH. */
byte asked_dead;
byte asked_join;
byte nrecords;
byte dead[EPOCHS];
byte table[EPOCHS];
byte first[EPOCHS]; /* operation of that table */
byte where[16];     /* [epoch][chunk]: server + 1 that it is dealt to; 0: none */
byte from[16];      /* the same: server + 1 of the dead stream that it was lost with */

/* [epoch][server][rank]: of each stream. */
byte done[STREAMS];    /* results that the rank has */
byte part[STREAMS];    /* of the next chunk: */
byte carries[STREAMS]; /* and what is in it */
#ifdef HELD
byte held[STREAMS];    /* results that the shard has heard the rank has */
byte sure[STREAMS];    /* results that the rank has heard all have */
#endif

c_code {
enum { NOT_SENT, ARRIVED, ANSWERED };                /* part[] */
enum { INPUT, PREFIX, RESULT, OVERWRITTEN, MIXED };  /* carries[]: MIXED is a prefix that is called input */
enum { EVER = 15 };

static int at(int e, int s, int r) { return (e * 3 + s) * RANKS + r; }
static int in(int set, int x) { return set >> x & 1; }
static int operation(int g) { return g / 2; }
static int receives(int r)
{
#ifdef REDUCE
	return r == 0;
#else
	return 1;
#endif
}
static void rule(int holds, int number)
{
	if (!holds && !now.wrong) {
		now.wrong = (uchar)number;
	}
}

static int has_died(int r)
{
#ifdef RANK_DIES
	return in(now.died, r);
#else
	return 0;
#endif
}

static int works(int r) { return !in(now.aborted, r) && !has_died(r); }
static int finished(int r) { return now.returned[r] == (1 << OPERATIONS) - 1; }

/* Servers of its table that the rank has lanes to: these relay. */
static int lanes(int r) { return now.table[now.epoch[r]] & ~now.closed[r]; }

/* The one that joins is not in a table yet when ranks connect to it. */
static int is_connected(int r, int s)
{
	return in(lanes(r), s) || (s == SERVERS - 1 && now.said_join[r] && !in(now.closed[r], s));
}

/* Some server relays between the rank and rank 0. */
static int reaches(int r) { return now.alive & lanes(r) & lanes(0); }

/* The chunk at place k of a stream; CHUNKS: there is none. */
static int chunk_at(int e, int s, int k)
{
	int g;

	for (g = 0; g < CHUNKS; g++) {
		if (now.where[e * CHUNKS + g] == s + 1 && k-- == 0) {
			break;
		}
	}
	return g;
}

static int place_of(int e, int s, int chunk)
{
	int k = 0;
	int g;

	for (g = 0; g < chunk; g++) {
		k += now.where[e * CHUNKS + g] == s + 1;
	}
	return k;
}

/* The last epoch that deals the chunk. */
static int epoch_of(int g)
{
	int e = now.nrecords;

	while (e > 0 && now.where[e * CHUNKS + g] == 0) {
		e--;
	}
	return e;
}

/* All ranks are finished with every chunk of the operation, where it is dealt last. */
static int is_stable(int o)
{
	int g, r;

	for (g = 2 * o; g < 2 * o + 2; g++) {
		int e = epoch_of(g);
		int s = now.where[e * CHUNKS + g] - 1;

		for (r = 0; r < RANKS; r++) {
			if (now.done[at(e, s, r)] <= place_of(e, s, g)) {
				return 0;
			}
		}
	}
	return 1;
}

#ifdef HELD
/* Whether the rank has been told so of a chunk: by HELD, or by a record that lost none of it. */
static int is_sure(int r, int g)
{
	int e = now.epoch[r];
	int s;

	while (e > 0 && now.where[e * CHUNKS + g] == 0) {
		e--;
	}
	s = now.where[e * CHUNKS + g] - 1;
	return now.sure[at(e, s, r)] > place_of(e, s, g) || in(now.dead[now.epoch[r]], s);
}

/* A rank says HELD, */
static int can_say_held(int e, int s, int r)
{
	return works(r) && in(now.alive, s) && !in(now.closed[r], s) && now.held[at(e, s, r)] < now.done[at(e, s, r)];
}

static void say_held(int e, int s, int r)
{
	now.held[at(e, s, r)] = now.done[at(e, s, r)];
}

/* and a shard passes it on when all have. */
static int least_held(int e, int s)
{
	int least = CHUNKS;
	int r;

#ifdef BUG_HELD_MISSING /* the last rank is not waited for */
	for (r = 0; r < RANKS - 1; r++) {
#else
	for (r = 0; r < RANKS; r++) {
#endif
		least = now.held[at(e, s, r)] < least ? now.held[at(e, s, r)] : least;
	}
	return least;
}

static int can_hear_held(int e, int s, int r)
{
	return works(r) && in(now.alive, s) && !in(now.closed[r], s) && now.sure[at(e, s, r)] < least_held(e, s);
}

static void hear_held(int e, int s, int r)
{
	now.sure[at(e, s, r)] = least_held(e, s);
}
#endif

/* ---- agreement ---- */

static void say_sealed(int r)
{
	int e, s;

	now.said[r] = 1;
	now.said_dead[r] = now.closed[r];
	now.said_epoch[r] = now.epoch[r];
	now.said_begun[r] = now.promised[r];
	for (e = 0; e < EPOCHS; e++) {
		for (s = 0; s < SERVERS; s++) {
			now.said_done[at(e, s, r)] = in(now.closed[r], s) ? now.done[at(e, s, r)] : 0;
		}
	}
}

static void close_lanes(int r, int servers)
{
	now.closed[r] |= servers;
	if (now.promised[r] == EVER) {
		now.promised[r] = now.begun[r];
	}
}

static int can_notice(int r, int s)
{
	return works(r) && !in(now.alive, s) && is_connected(r, s);
}

static void lose(int r, int s)
{
	close_lanes(r, 1 << s);
	say_sealed(r);
}

static int can_cut(int r, int s)
{
#ifdef CUTS
	return now.faults && in(now.alive, s) && is_connected(r, s);
#else
	return 0;
#endif
}

static int can_hear(int r)
{
	int e, s;

	if (!works(0) || !now.said[r] || (r && !reaches(r))) {
		return 0;
	}
	if (!now.heard[r] || now.heard_dead[r] != now.said_dead[r] || now.heard_epoch[r] != now.said_epoch[r] ||
		now.heard_join[r] != now.said_join[r] || now.heard_begun[r] != now.said_begun[r]) {
		return 1;
	}
	return 0;
}

static void hear(int r)
{
	int i;

	now.heard[r] = 1;
	now.heard_dead[r] = now.said_dead[r];
	now.heard_epoch[r] = now.said_epoch[r];
	now.heard_begun[r] = now.said_begun[r];
	now.heard_join[r] = now.said_join[r];
	for (i = r; i < STREAMS; i += RANKS) {
		now.heard_done[i] = now.said_done[i];
	}
	now.asked_dead |= now.heard_dead[r];
	if (now.asked_dead & ~now.closed[0]) {
		close_lanes(0, now.asked_dead);
		say_sealed(0);
	}
}

static int can_be_asked(int r)
{
	return works(r) && works(0) && reaches(r) && now.epoch[r] == now.nrecords &&
	       ((now.asked_dead & ~now.closed[r]) || now.asked_join != now.said_join[r]);
}

static void promise_ahead(int r)
{
	if (now.promised[r] == EVER) {
		now.promised[r] = now.begun[r] + 1;
	}
}

static void be_asked(int r)
{
	if (now.asked_dead & ~now.closed[r]) {
		close_lanes(r, now.asked_dead);
	} else {
		promise_ahead(r);
	}
	now.said_join[r] = now.asked_join;
	say_sealed(r);
}

static int next_table(void)
{
	int spare = now.asked_join ? 1 << (SERVERS - 1) : 0;

	return (FIRST_TABLE | spare) & ~now.asked_dead;
}

static int can_say_epoch(void)
{
	int missing = RANKS;
	int r;

	if (!works(0) || now.epoch[0] != now.nrecords || now.nrecords + 1 == EPOCHS || next_table() == 0 ||
		(next_table() == now.table[now.nrecords] && now.asked_dead == now.dead[now.nrecords])) {
		return 0;
	}
	for (r = 0; r < RANKS; r++) {
		missing -= now.heard[r] && now.heard_dead[r] == now.asked_dead &&
			   now.heard_epoch[r] == now.nrecords && now.heard_join[r] == now.asked_join;
	}
#ifdef BUG_ONE_MISSING /* the seal of one rank is not waited for */
	return missing <= 1;
#else
	return missing == 0;
#endif
}

/* How far a dead stream has come at every rank. */
static int least_done(int e, int s)
{
	int least = now.heard_done[at(e, s, 0)];
	int r;

	for (r = 1; r < RANKS; r++) {
#ifdef BUG_LARGEST /* not the smallest number of results */
		if (now.heard_done[at(e, s, r)] > least) {
#else
		if (now.heard_done[at(e, s, r)] < least) {
#endif
			least = now.heard_done[at(e, s, r)];
		}
	}
	return least;
}

/* server + 1 of the newly dead one that the chunk is lost with; 0: it is not. */
static int lost_with(int g)
{
	int e = epoch_of(g);
	int s = now.where[e * CHUNKS + g] - 1;

	if (s < 0 || !in(now.asked_dead & ~now.dead[now.nrecords], s)) {
		return 0;
	}
	return place_of(e, s, g) >= least_done(e, s) ? s + 1 : 0;
}

/* The new streams carry what was lost, and then all operations from F on, in order. */
static void say_epoch(void)
{
	int next = now.nrecords + 1;
	int to[CHUNKS], source[CHUNKS];
	int f = 0, g, r, server = SERVERS - 1;

	for (r = 0; r < RANKS; r++) {
		if (now.heard_begun[r] > f) {
			f = now.heard_begun[r];
		}
	}
#ifdef BUG_OWN_FIRST /* rank 0 takes its own N for F */
	f = now.heard_begun[0];
#endif
	f = f > OPERATIONS ? OPERATIONS : f;
	for (g = 0; g < CHUNKS; g++) {
		int lost = lost_with(g);

		to[g] = 0;
		source[g] = operation(g) < f ? lost : 0;
		if (operation(g) < f && !lost) {
			continue;
		}
		do {
			server = (server + 1) % SERVERS;
		} while (!in(next_table(), server));
		to[g] = server + 1;
	}
	for (g = 0; g < CHUNKS; g++) {
		now.where[next * CHUNKS + g] = to[g];
		now.from[next * CHUNKS + g] = source[g];
	}
	now.table[next] = next_table();
	now.dead[next] = now.asked_dead;
	now.first[next] = f;
	now.nrecords = next;
}

static int can_apply(int r)
{
	return works(r) && now.epoch[r] < now.nrecords && (r == 0 || reaches(r));
}

static void apply(int r)
{
	int e = ++now.epoch[r];

	now.closed[r] |= now.dead[e];
#ifdef BUG_BREAK_SEAL /* a second suspicion does not outlive the record */
	now.promised[r] = EVER;
#else
	if (now.closed[r] == now.dead[e]) {
		now.promised[r] = EVER;
		return;
	}
#endif
	say_sealed(r);
}

/* ---- chunks ---- */

/* The chunk that the rank may send a part of; CHUNKS: none. */
static int to_send(int e, int s, int r)
{
	int g;

	if (!works(r) || e > now.epoch[r] || !in(now.alive, s) || in(now.closed[r], s) ||
		now.part[at(e, s, r)] != NOT_SENT) {
		return CHUNKS;
	}
	g = chunk_at(e, s, now.done[at(e, s, r)]);
	if (g == CHUNKS || operation(g) >= now.begun[r]) {
		return CHUNKS;
	}
#ifndef BUG_OLD_TABLE /* what begins after a record goes by the table before it */
	if (e < now.epoch[r] && operation(g) >= now.first[e + 1]) {
		return CHUNKS;
	}
#endif
	return g;
}

static int contribution(int r, int g)
{
	int o = operation(g);

	if (in(now.returned[r], o) && !in(now.copied[r], o)) {
		return OVERWRITTEN;
	}
	if (!receives(r)) {
		return INPUT;
	}
#ifdef BUG_NO_HAVE /* half a result in place goes as if it were the input */
	if (now.has[r * CHUNKS + g] == 1) {
		return MIXED;
	}
#endif
	return now.has[r * CHUNKS + g];
}

static void reduce(int e, int s, int g)
{
	int source = now.from[e * CHUNKS + g];
	int have = 0;
	int q;

	for (q = 0; q < RANKS; q++) {
		int c = now.carries[at(e, s, q)];

		rule(c != OVERWRITTEN, 3);
		have = c <= RESULT && c > have ? c : have;
		rule(source == 0 || in(now.closed[q], source - 1), 1);
	}
	for (q = 0; q < RANKS; q++) {
		int c = now.carries[at(e, s, q)];

		/* In front of `have` is the result, and behind it all must have their inputs. */
		rule(have == RESULT || c <= have || (c == MIXED && have == PREFIX), 2);
		now.part[at(e, s, q)] = ANSWERED;
		now.carries[at(e, s, q)] = 0;
	}
}

static void send_part(int e, int s, int r)
{
	int g = to_send(e, s, r);
	int q;

	rule(e == now.epoch[r] || operation(g) < now.first[e + 1], 6);
	now.part[at(e, s, r)] = ARRIVED;
	now.carries[at(e, s, r)] = contribution(r, g);
	for (q = 0; q < RANKS; q++) {
		if (now.part[at(e, s, q)] != ARRIVED || now.done[at(e, s, q)] != now.done[at(e, s, r)]) {
			return;
		}
	}
	reduce(e, s, g);
}

static int can_take(int e, int s, int r)
{
	if (!works(r) || now.part[at(e, s, r)] != ANSWERED) {
		return 0;
	}
#ifdef BUG_TAKE_ON /* results of a server that it has said SEALED of */
	return 1;
#else
	return !in(now.closed[r], s);
#endif
}

static int can_take_half(int e, int s, int r)
{
#ifdef IN_PLACE
	int g = chunk_at(e, s, now.done[at(e, s, r)]);

	return can_take(e, s, r) && receives(r) && now.has[r * CHUNKS + g] == 0;
#else
	return 0;
#endif
}

static void take(int e, int s, int r, int how_much)
{
	now.has[r * CHUNKS + chunk_at(e, s, now.done[at(e, s, r)])] = how_much;
	if (how_much == 2) {
		now.part[at(e, s, r)] = NOT_SENT;
		now.done[at(e, s, r)]++;
	}
}

/* ---- operations ---- */

static int can_begin(int r)
{
	int o = now.begun[r];

	return works(r) && o < OPERATIONS && o < now.promised[r] &&
	       (o == 0 || !in(BLOCKS, r) || in(now.returned[r], o - 1));
}

static int can_return(int r, int o)
{
	int e, s;

	if (!works(r) || o >= now.begun[r] || in(now.returned[r], o) || now.has[r * CHUNKS + 2 * o] < 2 ||
		now.has[r * CHUNKS + 2 * o + 1] < 2) {
		return 0;
	}
#ifdef BUG_UNSTABLE /* it returns as soon as this rank has its results */
	return 1;
#else
#ifdef HELD
	return !in(WAITS, o) || (is_sure(r, 2 * o) && is_sure(r, 2 * o + 1));
#else
	return !in(WAITS, o) || is_stable(o);
#endif
#endif
}

static void give_back(int r, int o)
{
	now.returned[r] |= 1 << o;
	now.copied[r] |= !in(WAITS, o) << o;
}

/* ---- ends ---- */

static int can_die(int r)
{
#ifdef RANK_DIES
	return now.faults && works(r) && !now.died;
#else
	return 0;
#endif
}

static void die(int r)
{
#ifdef RANK_DIES
	now.faults--;
	now.died |= 1 << r;
#endif
}

/* A server says GONE to the others when a rank's lane to it has ended. */
static int can_hear_gone(int r, int s)
{
#if (defined(RANK_DIES) || defined(CUTS)) && !defined(BUG_NO_GONE) /* a server keeps it for itself */
	int q;

	for (q = 0; q < RANKS; q++) {
		if (q != r && works(r) && in(now.alive & lanes(r), s) && !in(now.gone[r], s) &&
			(has_died(q) || in(now.closed[q], s))) {
			return 1;
		}
	}
#endif
	return 0;
}

static void hear_gone(int r, int s)
{
#if defined(RANK_DIES) || defined(CUTS)
	now.gone[r] |= 1 << s;
#endif
}

static int all_have_said_gone(int r)
{
#if defined(RANK_DIES) || defined(CUTS)
#ifdef BUG_FIRST_GONE /* one server's word is enough */
	return now.gone[r] & lanes(r);
#else
	return lanes(r) && (lanes(r) & ~now.gone[r]) == 0;
#endif
#else
	return 0;
#endif
}

static int can_abort(int r)
{
	return works(r) && (lanes(r) == 0 || now.aborted || all_have_said_gone(r) || (r && !reaches(r) && !has_died(0)));
}

static void give_up(int r)
{
	rule((now.alive & lanes(0) & lanes(1) & lanes(2)) == 0 || now.aborted || has_died(0) || has_died(1) || has_died(2), 7);
	now.aborted |= 1 << r;
}

static int all_over(void)
{
	return (finished(0) || !works(0)) && (finished(1) || !works(1)) && (finished(2) || !works(2));
}

/* ---- order ---- */

/*
 * Some steps disable no other one and change nothing that a rule looks at, whenever they are taken: such a
 * step is taken at once, and no other order is tried. An operation's return: it can only make a part
 * worse. All steps once nothing more can happen to the table. And parts and results of a server that nobody
 * has closed his lanes to, once there is no fault left.
 */
static int is_settled(void)
{
	int r;

#ifdef RANK_DIES
	if (now.died) {
		return 0;
	}
#endif
#ifdef SPARE
	if (!now.asked_join || !in(now.table[now.nrecords] | now.asked_dead, SERVERS - 1)) {
		return 0;
	}
#endif
	for (r = 0; r < RANKS; r++) {
		if (now.faults || now.closed[r] != now.dead[now.nrecords] || now.epoch[r] != now.nrecords) {
			return 0;
		}
	}
	return !now.aborted && now.asked_dead == now.dead[now.nrecords] &&
	       (now.table[now.nrecords] & ~now.alive) == 0;
}

enum { NO_STEP, BEGIN, GIVE_BACK, SEND_PART, TAKE, SAY_HELD, HEAR_HELD };
static int eager_e, eager_s, eager_r;

static int find_eager_part(int s)
{
	int e, r;

	if (now.faults || !in(now.alive, s) || in(now.closed[0] | now.closed[1] | now.closed[2] | now.asked_dead, s)) {
		return NO_STEP;
	}
	for (e = 0; e <= now.nrecords; e++) {
		for (r = 0; r < RANKS; r++) {
			eager_e = e;
			eager_s = s;
			eager_r = r;
			if (to_send(e, s, r) < CHUNKS) {
				return SEND_PART;
			}
			if (can_take(e, s, r)) {
				return TAKE;
			}
#ifdef HELD
			if (can_say_held(e, s, r)) {
				return SAY_HELD;
			}
			if (can_hear_held(e, s, r)) {
				return HEAR_HELD;
			}
#endif
		}
	}
	return NO_STEP;
}

static int find_eager(void)
{
	int step = NO_STEP;
	int o, r, s;

	for (r = 0; r < RANKS; r++) {
		for (o = 0; o < OPERATIONS; o++) {
			eager_r = r;
			eager_e = o;
			if (can_return(r, o)) {
				return GIVE_BACK;
			}
		}
		if (is_settled() && can_begin(r)) {
			return BEGIN;
		}
	}
	for (s = 0; s < SERVERS && step == NO_STEP; s++) {
		step = find_eager_part(s);
	}
	return step;
}

static void take_eager(void)
{
	switch (find_eager()) {
	case BEGIN:
		now.begun[eager_r]++;
		break;
	case GIVE_BACK:
		give_back(eager_r, eager_e);
		break;
	case SEND_PART:
		send_part(eager_e, eager_s, eager_r);
		break;
	case TAKE:
		take(eager_e, eager_s, eager_r, 2);
		break;
#ifdef HELD
	case SAY_HELD:
		say_held(eager_e, eager_s, eager_r);
		break;
	case HEAR_HELD:
		hear_held(eager_e, eager_s, eager_r);
		break;
#endif
	default:
		break;
	}
}

/* (e): no part waits for ever at a server that is common to all. */
static void check_end(void)
{
	int i;

	for (i = 0; i < STREAMS; i++) {
		int s = i / RANKS % 3;

		rule(now.part[i] != ARRIVED || now.aborted || has_died(i % RANKS) || !in(now.alive, s) ||
			in(now.closed[0] | now.closed[1] | now.closed[2], s), 5);
	}
}
}

/* spin takes NAME( in an expression for a side effect, but not NAME (. */
#define STEP(guard, step) :: c_expr { (guard) && !find_eager () } -> d_step { c_code { step; }; assert(wrong == 0) }

#define OF_SERVER(s) \
	STEP(now.faults && in (now.alive, s), now.faults--; now.alive &= ~(1 << s)) \
	OF_LANE(s, 0) OF_LANE(s, 1) OF_LANE(s, 2)

#define OF_LANE(s, r) \
	STEP(can_notice (r, s), lose(r, s)) \
	STEP(can_cut (r, s), now.faults--; lose(r, s)) \
	STEP(can_hear_gone (r, s), hear_gone(r, s)) \
	OF_STREAM(0, s, r) OF_STREAM(1, s, r) OF_STREAM(2, s, r) OF_STREAM(3, s, r)

#define OF_STREAM(e, s, r) \
	STEP(to_send (e, s, r) < CHUNKS, send_part(e, s, r)) \
	STEP(can_take (e, s, r), take(e, s, r, 2)) \
	STEP(can_take_half (e, s, r), take(e, s, r, 1)) \
	OF_HELD(e, s, r)

#ifdef HELD
#define OF_HELD(e, s, r) \
	STEP(can_say_held (e, s, r), say_held(e, s, r)) \
	STEP(can_hear_held (e, s, r), hear_held(e, s, r))
#else
#define OF_HELD(e, s, r)
#endif

#define OF_RANK(r) \
	STEP(can_begin (r), now.begun[r]++) \
	STEP(can_be_asked (r), be_asked(r)) \
	STEP(can_hear (r), hear(r)) \
	STEP(can_apply (r), apply(r)) \
	STEP(can_die (r), die(r)) \
	STEP(can_abort (r), give_up(r))

init {
	d_step {
		c_code {
			int r, g, server = SERVERS - 1;

			now.alive = (1 << SERVERS) - 1;
			now.faults = FAULTS;
			now.table[0] = FIRST_TABLE;
			for (r = 0; r < RANKS; r++) {
				now.promised[r] = EVER;
			}
			for (g = 0; g < CHUNKS; g++) {
				do {
					server = (server + 1) % SERVERS;
				} while (!in (FIRST_TABLE, server));
				now.where[g] = server + 1;
			}
		}
	}
	do
	OF_SERVER(0)
#if SERVERS > 1
	OF_SERVER(1)
#endif
#if SERVERS > 2
	OF_SERVER(2)
#endif
	OF_RANK(0)
	OF_RANK(1)
	OF_RANK(2)
#ifdef SPARE
	/* ASK(ahead): a server joins, and nobody stops for it. */
	STEP(!now.asked_join && works (0) && now.epoch[0] == now.nrecords,
		now.asked_join = 1; now.said_join[0] = 1; promise_ahead(0); say_sealed(0))
#endif
	STEP(can_say_epoch (), say_epoch())
	:: c_expr { find_eager () } -> d_step { c_code { take_eager(); }; assert(wrong == 0) }
	:: c_expr { all_over () && !find_eager () } -> d_step { c_code { check_end(); }; assert(wrong == 0) }; break
	od
}
