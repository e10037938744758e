/*
 * A model of the protocol in specs/design/epochs.md: how a communicator's table of servers changes while
 * its operations go on.
 *
 * Every step of the world is one atomic step of one process, so that spin tries every order of them. Each
 * step advances something that never goes back, so a history cannot run for ever: where spin finds no
 * invalid end, all of them come to their end. tests/model/run.py says which worlds are tried, and which bugs are
 * planted.
 *
 *   SERVERS    that there are
 *   JOINS      the last of them is in no table at first, and may be taken in
 *   DRAINS     the first of them may be asked to end: it is dealt nothing, and then left
 *   LEAVES_OUT the first of them may be dealt nothing, and then something again
 *   ASKS       how many candidates rank 0 asks all to join
 *   REFUSALS   how many of them some rank has no memory for
 *   DURING     servers die only when it has asked for one
 *   FAULTS     how many servers die; with CUTS also: a rank loses its lanes to a server that lives
 *   DIES       which ones may: a bit for each
 *   WAITS      bit o: operation o is large, and returns when it is stable; else its chunks are copied
 *   BLOCKS     bit r: rank r begins an operation only when the one before has returned
 *   IN_PLACE   results overwrite inputs, and may have come by half
 *   REDUCE     only rank 0 gets results
 *   HELD       a rank knows that an operation is stable by what it is told; else as soon as it is
 *   RANK_DIES  a fault may be the end of a rank too
 *   OTHERS     a bit for each server that is there and in no table at first: ranks go on with one of them when none of
 *              their table is left. With JOINS the last one is among them
 *   TOLD       they may tell ranks that have lost none of it, who join there, too. A table's server that stands still, and is
 *              found silent at any later time, is one that has died; one that stands for a while is one that says GONE late
 */
#ifdef BUG_RESCUE_TAKES_ON /* the same, where ranks go on with a server outside their table */
#define BUG_TAKE_ON
#endif
#define RANKS 3
#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef DIES
#define DIES 7
#endif
#ifndef WAITS
#define WAITS 1
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
#define OPERATIONS 2
#define CHUNKS 4 /* two of each operation */
#ifndef EPOCHS
#define EPOCHS 4
#endif
#ifdef OTHERS
#define FIRST_DEAD OTHERS
#elif defined(JOINS)
#define FIRST_DEAD (1 << (SERVERS - 1))
#else
#define FIRST_DEAD 0
#endif
#ifndef ASKS
#define ASKS 0
#endif
#ifndef REFUSALS
#define REFUSALS 0
#endif
#if EPOCHS == 4
#define STREAMS 36 /* EPOCHS * 3 servers * RANKS */
#define DEALT   16 /* EPOCHS * CHUNKS */
#else
#define STREAMS 45
#define DEALT   20
#endif

byte alive;  /* servers */
byte faults; /* that are still to come */
byte wrong;  /* the first rule that was broken */

/* Of each rank. */
byte closed[RANKS];   /* servers that it has closed its lanes to, or has no use for */
byte epoch[RANKS];    /* the last record that it has applied */
byte begun[RANKS];    /* operations */
byte promised[RANKS]; /* it begins none from here on before the next record */
byte returned[RANKS]; /* operations */
byte has[12];         /* [rank][chunk]: none, half, or all of the result */
byte aborted;         /* ranks */
#ifdef RANK_DIES
byte died;            /* ranks */
#endif
#if defined(RANK_DIES) || defined(CUTS)
byte gone[RANKS];     /* servers that have said GONE to it */
#endif

#ifdef OTHERS
/* Where none of the table is left: */
byte lost[RANKS];     /* servers that it has no lanes to any more; others that are in `closed` are there */
byte asked[RANKS];    /* servers outside its table whose streams it joins, */
byte whole[RANKS];    /* which all ranks have joined, */
byte rejoined[RANKS]; /* and it has heard JOINED */
byte on_way[RANKS];   /* servers that carry the last record to it in these streams */
#endif
#ifdef TOLD
byte tells[3];        /* LOST, by each server: epoch + 1 of a rank that waits there and has lost that table; it may be heard late */
byte told[RANKS];     /* servers from which it has heard that */
byte comes;           /* ranks that join other servers though they have lost none of their table */
#endif

/* SEALED: what a rank says is what it has, for nothing of that changes while it is sealed; and the servers that
 * rank 0 has heard in it, of this epoch. 0: nothing yet. */
byte heard_dead[RANKS];
#ifdef BUG_TAKE_ON
byte said_done[STREAMS];
#endif

/* What rank 0 says: ASK, and the records: EPOCH. */
byte asked_dead;
byte nrecords;
byte dead[EPOCHS];
byte first[EPOCHS]; /* operation of that table */
byte where[DEALT];  /* [epoch][chunk]: server + 1 that it is dealt to; 0: none */
byte from[DEALT];   /* the same: server + 1 of the dead stream that it was lost with */
#if ASKS > 0
/* AHEAD, PROMISED, CANCEL: of the candidate that was asked for last. */
byte asks;          /* how many there were */
byte sought;        /* what it is for */
byte stands;        /* rank 0 waits for promises, or has lost a server since */
byte idle[EPOCHS];  /* servers of that table that nothing is dealt to */
byte refusals;      /* that are still to come */
byte heard_of[RANKS]; /* candidates */
byte joined;        /* ranks that have joined its streams */
byte answer[RANKS]; /* 0: none; REFUSED; N and PROMISED */
byte again;         /* ranks that have lost the server that joins */
#endif

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
enum { NOTHING, JOIN, IDLE, LEAVE, OUT, BACK };      /* sought */
enum { REFUSED = 1, PROMISED = 2 };                  /* answer[] */
enum { ALL = (1 << SERVERS) - 1, DRAINED = 1 << 0, JOINING = 1 << (SERVERS - 1) };

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
static int lanes(int r) { return ALL & ~now.dead[now.epoch[r]] & ~now.closed[r]; }

static int is_sealed(int r) { return now.closed[r] != now.dead[now.epoch[r]]; }

/* The one that joins, where the rank has lanes to it and streams of the candidate. */
static int candidate_lanes(int r)
{
#if ASKS > 0
	return now.sought == JOIN && in(now.joined & ~now.again, r) ? JOINING : 0;
#else
	return 0;
#endif
}

/* Servers that are there, and were not lost by any rank. */
static int common(void)
{
#ifdef OTHERS
	return now.alive & ~now.lost[0] & ~now.lost[1] & ~now.lost[2];
#else
	return now.alive & lanes(0) & lanes(1) & lanes(2);
#endif
}

/* Some server relays between the rank and rank 0. */
static int reaches(int r) { return now.alive & lanes(r) & lanes(0); }

/* Servers outside the table through whose streams the rank and rank 0 hear each other. */
static int rescue_lanes(int r)
{
#ifdef OTHERS
	return now.alive & now.rejoined[r] & now.rejoined[0];
#else
	return 0;
#endif
}

/* Servers that carry the last record to it in such streams: it may come after the server's death, when others know of that. */
static int carriers(int r)
{
#ifdef OTHERS
	return now.epoch[r] + 1 == now.nrecords ? now.on_way[r] : 0;
#else
	return 0;
#endif
}

/* A record is said in the candidate's streams, too. */
static int is_told(int r) { return reaches(r) || (now.alive & candidate_lanes(r) & lanes(0)) || carriers(r); }

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

static int says_sealed(int r)
{
#ifdef BUG_LOST_AGAIN /* who has lost the server that joins says nothing of it */
	if (in(now.again, r)) {
		return 0;
	}
#endif
	return works(r) && is_sealed(r) && now.epoch[r] == now.nrecords;
}

/* How many results the rank says that it has of the stream. */
static int said_done(int e, int s, int r)
{
#ifdef BUG_TAKE_ON
	return now.said_done[at(e, s, r)];
#else
	return now.done[at(e, s, r)];
#endif
}

static void close_lanes(int r, int servers)
{
	int i;

	if (!is_sealed(r) && now.begun[r] < now.promised[r]) {
		now.promised[r] = now.begun[r];
	}
#ifdef OTHERS
	now.lost[r] |= servers & ~now.closed[r];
#endif
	now.closed[r] |= servers;
#ifdef BUG_TAKE_ON
	for (i = r; i < STREAMS; i += RANKS) {
		now.said_done[i] = in(servers, i / RANKS % 3) ? now.done[i] : now.said_done[i];
	}
#endif
}

static int all_have_said_gone(int r);

/* None of its table is left that has all ranks. */
static int in_rescue(int r)
{
#ifdef OTHERS
	return works(r) && (lanes(r) == 0 || all_have_said_gone(r));
#else
	return 0;
#endif
}

/* Or it waits at other servers because it was told. */
static int waits(int r)
{
#ifdef TOLD
	if (works(r) && in(now.comes, r)) {
		return 1;
	}
#endif
	return in_rescue(r);
}

/* Servers outside its table that it has lanes to. */
static int others(int r)
{
#ifdef OTHERS
	return now.closed[r] & ~now.lost[r];
#else
	return 0;
#endif
}

/* Those of them whose streams it is in. */
static int asked(int r)
{
#ifdef OTHERS
	return now.asked[r];
#else
	return 0;
#endif
}

static int can_notice(int r, int s)
{
	return works(r) && !in(now.alive, s) && in(lanes(r) | candidate_lanes(r) | (in_rescue(r) ? others(r) : asked(r)), s);
}

/* Streams outside its table, or that were so. */
static void leave(int r, int servers)
{
#ifdef OTHERS
	now.asked[r] &= ~servers;
	now.whole[r] &= ~servers;
	now.rejoined[r] &= ~servers;
	now.on_way[r] &= ~servers;
#endif
}

static void lose(int r, int s)
{
#ifdef OTHERS
	now.lost[r] |= 1 << s;
	leave(r, 1 << s);
	if (!in(lanes(r) | candidate_lanes(r), s)) {
#if ASKS > 0
		now.again |= in(JOINING, s) << r; /* it refuses a table with it */
#endif
		return;
	}
#endif
#if ASKS > 0
	if (!in(lanes(r), s)) { /* before it is in the table */
		now.again |= 1 << r;
		now.answer[r] = now.answer[r] ? now.answer[r] : REFUSED;
		return;
	}
#endif
	close_lanes(r, 1 << s);
}

static int can_cut(int r, int s)
{
#ifdef CUTS
	return now.faults && works(r) && in(now.alive, s) && in(lanes(r) | candidate_lanes(r) | others(r), s);
#else
	return 0;
#endif
}

static int can_hear(int r)
{
	return works(0) && says_sealed(r) && (r == 0 || reaches(r) || rescue_lanes(r)) && now.heard_dead[r] != now.closed[r];
}

static void hear(int r)
{
	now.heard_dead[r] = now.closed[r];
	now.asked_dead |= now.heard_dead[r];
	if (now.asked_dead & ~now.closed[0]) {
		close_lanes(0, now.asked_dead);
	}
}

static int can_be_asked(int r)
{
	return works(r) && works(0) && reaches(r) && now.epoch[r] == now.nrecords && (now.asked_dead & ~now.closed[r]);
}

static void be_asked(int r)
{
	close_lanes(r, now.asked_dead);
}

/* The servers that the next table is without: where none of this one is left, all but one that has all ranks. ALL: there is
 * none. */
static int next_dead(void)
{
#ifdef OTHERS
	if (now.asked_dead == ALL) {
		return ALL & ~(now.rejoined[0] & -now.rejoined[0]);
	}
#endif
	return now.asked_dead;
}

static int can_say_epoch(void)
{
	int missing = RANKS;
	int r;

	if (!works(0) || now.epoch[0] != now.nrecords || now.nrecords + 1 == EPOCHS || next_dead() == ALL ||
		now.asked_dead == now.dead[now.nrecords]) {
		return 0;
	}
	for (r = 0; r < RANKS; r++) {
		missing -= now.heard_dead[r] == now.asked_dead;
	}
#ifdef BUG_RESCUE_ONE_MISSING /* nor where none of the table is left */
	if (now.asked_dead == ALL) {
		return missing <= 1;
	}
#endif
#ifdef BUG_ONE_MISSING /* the seal of one rank is not waited for */
	return missing <= 1;
#else
	return missing == 0;
#endif
}

/* How far a dead stream has come at every rank. */
static int least_done(int e, int s)
{
	int least = said_done(e, s, 0);
	int r;

	for (r = 1; r < RANKS; r++) {
#ifdef BUG_LARGEST /* not the smallest number of results */
		if (said_done(e, s, r) > least) {
#else
		if (said_done(e, s, r) < least) {
#endif
			least = said_done(e, s, r);
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

/* Servers that the next table deals to: those that are being drained, too, where no other is left. */
static int dealt_to(int without, int rest)
{
#ifdef BUG_RESTS_ON /* they are not dealt to any more */
	return ALL & ~without & ~rest;
#else
	return ALL & ~without & ~rest ? ALL & ~without & ~rest : ALL & ~without;
#endif
}

/* The new streams carry what was lost, and then all operations from F on, in order. */
static void add_record(int without, int rest, int f)
{
	int next = now.nrecords + 1;
	int to[CHUNKS], source[CHUNKS];
	int table = dealt_to(without, rest);
	int g, server = SERVERS - 1;

	f = f > OPERATIONS ? OPERATIONS : f;
	for (g = 0; g < CHUNKS; g++) {
		int lost = lost_with(g);

		to[g] = 0;
		source[g] = operation(g) < f ? lost : 0;
		if (table == 0 || (operation(g) < f && !lost)) {
			continue;
		}
		do {
			server = (server + 1) % SERVERS;
		} while (!in(table, server));
		to[g] = server + 1;
	}
	for (g = 0; g < CHUNKS; g++) {
		now.where[next * CHUNKS + g] = to[g];
		now.from[next * CHUNKS + g] = source[g];
	}
	for (g = 0; g < RANKS; g++) {
		now.heard_dead[g] = 0;
#ifdef OTHERS /* rank 0 says it in all streams that it is in: to those that are there by now */
		now.on_way[g] = now.asked[g] & now.asked[0] & ~(now.whole[g] ^ now.whole[0]) & now.alive;
#endif
	}
	now.dead[next] = without;
	now.first[next] = f;
	now.nrecords = next;
#ifdef OTHERS
	now.asked_dead = without;
#endif
#if ASKS > 0
	now.idle[next] = rest & table ? 0 : rest & ~without;
	now.asked_dead = without;
	now.stands = 0;
#endif
}

static int idle_now(void)
{
#if ASKS > 0
	return now.idle[now.nrecords];
#else
	return 0;
#endif
}

static void say_epoch(void)
{
	int f = 0, r;

	for (r = 0; r < RANKS; r++) {
		f = now.promised[r] > f ? now.promised[r] : f;
	}
#ifdef BUG_OWN_FIRST /* rank 0 takes its own N for F */
	f = now.promised[0];
#endif
	add_record(next_dead(), idle_now(), f);
}

/* ---- none of the table is left ---- */

#ifdef OTHERS
/* Each server has one group, for all records. A rank may reach it later than others do. */
static int can_join(int r, int s)
{
	return waits(r) && in(now.alive & others(r) & ~now.asked[r], s);
}

/* The shard forms a group of those that join, and has said JOINED when all have. Who has left one that has formed, and
 * joins again, is in the next one. */
static void join(int r, int s)
{
	int formed = 1 << s;
	int q;

	now.asked[r] |= 1 << s;
	for (q = 0; q < RANKS; q++) {
		formed &= now.asked[q] & ~now.whole[q];
	}
	for (q = 0; q < RANKS; q++) {
		now.whole[q] |= formed;
	}
#ifdef TOLD
	if (!formed && lanes(r) == 0 && now.tells[s] <= now.epoch[r]) {
		now.tells[s] = now.epoch[r] + 1;
		for (q = 0; q < RANKS; q++) {
			now.told[q] = (now.told[q] & ~(1 << s)) | (q == r) << s;
		}
	}
#endif
}

#ifdef TOLD
/* All have gone on since without that table, or this rank has nothing left to lose. */
static int is_past(int r, int e)
{
	int table = ALL & ~now.dead[now.epoch[r]];

	return now.epoch[r] > e + 1 || (now.epoch[r] > e && (table & ~now.dead[e]) == 0) || (now.epoch[r] == e && now.closed[r] == ALL);
}

/* And it has no server that the other rank may have. */
static int can_be_told(int r, int s)
{
	int e = now.tells[s] - 1;

	return works(r) && !waits(r) && in(now.alive & others(r) & ~now.told[r], s) && e >= 0 && !is_past(r, e) &&
	       (lanes(r) & now.dead[e]) == 0;
}

static void be_told(int r, int s)
{
	now.told[r] |= 1 << s;
	now.comes |= 1 << r;
	if (can_join(r, s)) {
		join(r, s);
	}
}

/* Not all came in time: it stays in these streams. */
static void stop_waiting(int r)
{
	now.comes &= ~(1 << r);
#ifdef BUG_TOLD_LEAVES /* it leaves them */
	leave(r, ALL);
#endif
}
#endif

/* It may have no need of it any more. */
static int can_hear_joined(int r, int s)
{
	return works(r) && in(now.alive & now.whole[r] & ~now.rejoined[r], s);
}

static void hear_joined(int r, int s)
{
	now.rejoined[r] |= 1 << s;
}

/* As soon as a rank needs a server, or waits at one, and has JOINED of one, now or long since: it loses what is left of its
 * table, and rank 0 says its last record again. */
static void go_on(int r)
{
	int q;

	if (!waits(r) || !now.rejoined[r]) {
		return;
	}
	if (now.closed[r] != ALL) {
		close_lanes(r, ALL);
	}
#ifndef BUG_NOT_SAID_AGAIN /* it does not */
	for (q = 1; q < RANKS && r == 0; q++) {
		if (now.epoch[q] < now.nrecords) {
			now.on_way[q] |= now.rejoined[0] & now.whole[q] & now.alive;
		}
	}
#endif
}

/* With a record a rank leaves only the streams of servers that are in its table. What it has joined at others stands, though
 * it may not need it now: it may need it later, and other ranks may need it still. */
static void leave_by_record(int r)
{
	now.on_way[r] = 0;
#ifdef TOLD
	now.comes &= ~(1 << r);
#endif
#ifdef BUG_ONE_GROUP /* it leaves them all, and joins them again */
	leave(r, ALL);
#else
	leave(r, ALL & ~now.dead[now.epoch[r]]);
#endif
}
#endif

static int can_apply(int r)
{
	return works(r) && now.epoch[r] < now.nrecords && (r == 0 || is_told(r));
}

static void apply(int r)
{
	int e = ++now.epoch[r];
	int back = now.dead[e - 1] & ~now.dead[e];

#if ASKS > 0
	back &= in(now.again, r) ? ~JOINING : ALL;
	now.joined &= ~(1 << r);
	now.answer[r] = 0;
#endif
#ifdef OTHERS
	back &= ~now.lost[r];
#endif
	now.closed[r] = (now.closed[r] & ~back) | now.dead[e];
#ifdef OTHERS
	leave_by_record(r);
#endif
	if (!is_sealed(r)) {
		now.promised[r] = EVER;
	}
#ifdef BUG_LOST_AGAIN
	now.promised[r] = EVER;
#endif
}

/* Which leaves what it has joined as soon as it has said a record: that is no step of its own. */
static void applied_by_rank_0(void)
{
#ifdef OTHERS
	apply(0);
#endif
}

/* The first operation that goes by a later table than that, of those up to `last`: a loss may come before the
 * operation that the table before it began with. */
static int first_after(int e, int last)
{
	int f = OPERATIONS;

	for (; e < last; e++) {
		f = now.first[e + 1] < f ? now.first[e + 1] : f;
	}
	return f;
}

/* ---- candidates ---- */

#if ASKS > 0
/* What rank 0 may want now. */
static int wanted(void)
{
	int dead = now.dead[now.nrecords];

	if (now.asks == ASKS || now.stands || !works(0) || is_sealed(0) || now.promised[0] != EVER ||
		now.epoch[0] != now.nrecords || now.asked_dead != dead || now.nrecords + 1 == EPOCHS ||
		now.begun[0] < now.first[now.nrecords]) {
		return NOTHING;
	}
#ifdef JOINS
	if ((dead & JOINING) && !(now.again & 1)) {
		return JOIN;
	}
#endif
#ifdef DRAINS
	if (!(dead & DRAINED) && (ALL & ~dead & ~DRAINED)) {
		return now.idle[now.nrecords] & DRAINED ? LEAVE : IDLE;
	}
#endif
#ifdef LEAVES_OUT
	if (!(dead & DRAINED) && (ALL & ~dead & ~DRAINED)) {
		return now.idle[now.nrecords] & DRAINED ? BACK : OUT;
	}
#endif
	return NOTHING;
}

static void hear_of(int r)
{
	now.heard_of[r] = now.asks;
	now.answer[r] = 0;
	now.joined &= ~(1 << r);
	if (!is_sealed(r)) {
		now.promised[r] = EVER; /* it has heard CANCEL of the one before */
		now.joined |= 1 << r;
		now.answer[r] = now.sought == JOIN && in(now.again, r) ? REFUSED : 0;
	}
}

static void seek(int what)
{
	now.sought = what;
	now.asks++;
	now.stands = 1;
	hear_of(0);
}

static int can_hear_of(int r)
{
	return works(r) && works(0) && reaches(r) && now.heard_of[r] < now.asks && now.stands &&
	       now.epoch[r] == now.nrecords;
}

/* Not all that the server was dealt has come back. */
static int needs(int r)
{
	int e, g;

	for (e = 0; e < now.epoch[r]; e++) {
		for (g = 0; g < 2 * first_after(e, now.epoch[r]); g++) {
			if (now.where[e * CHUNKS + g] == 1 && now.done[at(e, 0, r)] <= place_of(e, 0, g)) {
				return 1;
			}
		}
	}
	return 0;
}

/* All ranks have joined all of its streams. */
static int can_promise(int r)
{
	int servers = ALL & ~now.dead[now.nrecords];

	servers = now.sought == JOIN ? servers | JOINING : now.sought == LEAVE ? servers & ~DRAINED : servers;
	return works(r) && in(now.joined, r) && now.joined == (1 << RANKS) - 1 && now.answer[r] == 0 &&
	       !is_sealed(r) && (servers & ~now.alive) == 0
#ifndef BUG_LEAVES_EARLY /* while results of it are on their way */
	       && (now.sought != LEAVE || !needs(r))
#endif
		;
}

static void promise(int r)
{
	now.promised[r] = now.begun[r] + (now.sought != IDLE && now.sought != LEAVE);
	now.answer[r] = PROMISED + now.promised[r];
}

static int can_refuse(int r)
{
	return works(r) && now.refusals && in(now.joined, r) && now.answer[r] == 0 && !is_sealed(r);
}

static void refuse(int r)
{
	now.refusals--;
	now.answer[r] = REFUSED;
}

/* Rank 0, where it has lost no server since it has asked. */
static int may_conclude(void)
{
	return works(0) && now.stands && !is_sealed(0) && now.asked_dead == now.dead[now.nrecords];
}

static int said_of_it(int r)
{
	return now.heard_of[r] == now.asks && (r == 0 || reaches(r)) ? now.answer[r] : 0;
}

static int is_refused(void)
{
	return said_of_it(0) == REFUSED || said_of_it(1) == REFUSED || said_of_it(2) == REFUSED;
}

static void cancel(void)
{
	now.stands = 0;
	now.joined &= ~1;
	now.answer[0] = 0;
	now.promised[0] = EVER;
}

static int can_hear_cancel(int r)
{
	return works(r) && works(0) && reaches(r) && in(now.joined, r) && now.epoch[r] == now.nrecords &&
	       (now.heard_of[r] < now.asks || !now.stands); /* or another has been asked for since */
}

static void hear_cancel(int r)
{
	now.joined &= ~(1 << r);
	now.answer[r] = 0;
#ifndef BUG_KEEPS_PROMISE /* of what is not to be */
	if (!is_sealed(r)) {
		now.promised[r] = EVER;
	}
#endif
}

static int all_have_promised(void)
{
	int missing = RANKS;
	int r;

	for (r = 0; r < RANKS; r++) {
		missing -= said_of_it(r) >= PROMISED;
	}
#ifdef BUG_ONE_PROMISE /* that of one rank is not waited for */
	return missing <= 1;
#else
	return missing == 0;
#endif
}

static void conclude(void)
{
	int dead = now.dead[now.nrecords];
	int f = 0, r;

	for (r = 0; r < RANKS; r++) {
		f = now.answer[r] > f ? now.answer[r] : f;
	}
#ifdef BUG_OWN_PROMISE /* rank 0 takes its own N for F */
	f = now.answer[0];
#endif
	dead = now.sought == JOIN ? dead & ~JOINING : now.sought == LEAVE ? dead | DRAINED : dead;
	add_record(dead,
		now.sought == IDLE || now.sought == OUT ? DRAINED : now.sought == BACK ? 0 : idle_now(),
		f - PROMISED);
}

/* Something must become of it. */
static int is_open(void)
{
	return may_conclude() && works(1) && works(2);
}
#endif

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
	if (operation(g) >= first_after(e, now.epoch[r])) {
		return CHUNKS;
	}
#endif
	return g;
}

static int contribution(int r, int g)
{
	int o = operation(g);

	if (in(now.returned[r], o) && in(WAITS, o)) { /* else its chunks are copied */
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

	rule(operation(g) < first_after(e, now.epoch[r]), 6);
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

/* And not only left it, or not been in its table yet. */
static int has_closed(int r, int s)
{
#ifdef OTHERS
	return in(now.lost[r], s);
#else
	return in(now.closed[r], s);
#endif
}

/* A server says GONE to the others when a rank's lane to it has ended. */
static int can_hear_gone(int r, int s)
{
#if (defined(RANK_DIES) || defined(CUTS)) && !defined(BUG_NO_GONE) /* a server keeps it for itself */
	int q;

	for (q = 0; q < RANKS; q++) {
		if (q != r && works(r) && in(now.alive & lanes(r), s) && !in(now.gone[r], s) &&
			(has_died(q) || has_closed(q, s))) {
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

/* A rank that joins another server waits for a time, in which all come that live and reach it. */
static int can_abort(int r)
{
#ifdef OTHERS
	return works(r) && (now.aborted || (in_rescue(r) && (others(r) == 0 || !common() || has_died(0) || has_died(1) || has_died(2))));
#else
	return works(r) && (lanes(r) == 0 || now.aborted || all_have_said_gone(r) || (r && !reaches(r) && !has_died(0)));
#endif
}

static void give_up(int r)
{
	rule(common() == 0 || now.aborted || has_died(0) || has_died(1) || has_died(2), 7);
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
 * has closed his lanes to, where no fault can meet it any more. What rank 0 says to itself.
 */
static int is_settled(void)
{
	int r;

#ifdef RANK_DIES
	if (now.died) {
		return 0;
	}
#endif
#if ASKS > 0
	if (wanted() || now.stands || now.joined) {
		return 0;
	}
#endif
	for (r = 0; r < RANKS; r++) {
		if (now.faults || now.closed[r] != now.dead[now.nrecords] || now.epoch[r] != now.nrecords) {
			return 0;
		}
	}
	return !now.aborted && now.asked_dead == now.dead[now.nrecords] &&
	       (ALL & ~now.dead[now.nrecords] & ~now.alive) == 0;
}

static int may_be_lost(int s)
{
#if defined(CUTS) || defined(RANK_DIES)
	return now.faults;
#else
	return now.faults && in(DIES, s);
#endif
}

enum { NO_STEP, HEAR, BEGIN, GIVE_BACK, SEND_PART, TAKE, SAY_HELD, HEAR_HELD };
static int eager_e, eager_s, eager_r;

static int find_eager_part(int s)
{
	int e, r;

	if (may_be_lost(s) || !in(now.alive, s) || in(now.closed[0] | now.closed[1] | now.closed[2] | now.asked_dead, s)) {
		return NO_STEP;
	}
#ifdef DRAINS
	if (in(DRAINED, s)) {
		return NO_STEP; /* that all has come is what a rank waits for */
	}
#endif
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

	if (can_hear(0)) {
		return HEAR;
	}
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

static int take_eager(void)
{
	switch (find_eager()) {
	case HEAR:
		hear(0);
		break;
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
		return 0;
	}
	return 1;
}

/* ---- states that are one ---- */

/* What nobody looks at any more. */
static void forget_parts(int i)
{
#ifndef BUG_TAKE_ON
	int s = i / RANKS % 3;

	if (!in(now.alive, s) && (now.part[i] == ARRIVED || in(now.closed[i % RANKS], s))) {
		now.part[i] = NOT_SENT;
		now.carries[i] = 0;
	}
#endif
}

static void forget(void)
{
	int i;

	for (i = 0; i < STREAMS; i++) {
		forget_parts(i);
	}
#ifdef TOLD
	for (i = 0; i < RANKS * 3; i++) {
		int r = i % RANKS, s = i / RANKS;

		now.comes &= ~(in_rescue(r) << r);
		now.tells[s] = in(now.alive, s) ? now.tells[s] : 0;
		if (now.tells[s] == 0) {
			now.told[r] &= ~(1 << s);
		} else if (!works(r) || is_past(r, now.tells[s] - 1)) {
			now.told[r] |= 1 << s;
		}
	}
#endif
#if ASKS > 0
	if (now.stands) {
		return;
	}
	for (i = 0; i < RANKS; i++) {
		now.heard_of[i] = 0;
		now.answer[i] = in(now.joined, i) ? now.answer[i] : 0;
	}
	if (now.joined == 0) {
		now.sought = NOTHING;
#ifndef BUG_LOST_AGAIN
		now.again = now.asks == ASKS ? 0 : now.again;
#endif
	}
#endif
}

#define MAY_SWAP ((BLOCKS >> 1 & 1) == (BLOCKS >> 2 & 1))

/* Ranks 1 and 2 do the same: of two states that differ in their names one is looked at. */
static int order;
static int swaps;

static void one_byte(uchar *of_1, uchar *of_2)
{
	if (!swaps) {
		order = order ? order : *of_1 - *of_2;
	} else {
		uchar kept = *of_1;

		*of_1 = *of_2;
		*of_2 = kept;
	}
}

static void one_bit(uchar *set)
{
	uchar of_1 = in(*set, 1), of_2 = in(*set, 2);

	one_byte(&of_1, &of_2);
	*set = (*set & 1) | of_1 << 1 | of_2 << 2;
}

static void each_of_both(void)
{
	int i;

	one_byte(&now.closed[1], &now.closed[2]);
	one_byte(&now.epoch[1], &now.epoch[2]);
	one_byte(&now.begun[1], &now.begun[2]);
	one_byte(&now.promised[1], &now.promised[2]);
	one_byte(&now.returned[1], &now.returned[2]);
	one_byte(&now.heard_dead[1], &now.heard_dead[2]);
	one_bit(&now.aborted);
#ifdef OTHERS
	one_byte(&now.lost[1], &now.lost[2]);
	one_byte(&now.asked[1], &now.asked[2]);
	one_byte(&now.whole[1], &now.whole[2]);
	one_byte(&now.rejoined[1], &now.rejoined[2]);
	one_byte(&now.on_way[1], &now.on_way[2]);
#endif
#ifdef TOLD
	one_byte(&now.told[1], &now.told[2]);
	one_bit(&now.comes);
#endif
#ifdef RANK_DIES
	one_bit(&now.died);
#endif
#if defined(RANK_DIES) || defined(CUTS)
	one_byte(&now.gone[1], &now.gone[2]);
#endif
#if ASKS > 0
	one_byte(&now.heard_of[1], &now.heard_of[2]);
	one_byte(&now.answer[1], &now.answer[2]);
	one_bit(&now.joined);
	one_bit(&now.again);
#endif
	for (i = 0; i < CHUNKS; i++) {
		one_byte(&now.has[CHUNKS + i], &now.has[2 * CHUNKS + i]);
	}
	for (i = 0; i < STREAMS; i += RANKS) {
		one_byte(&now.done[i + 1], &now.done[i + 2]);
		one_byte(&now.part[i + 1], &now.part[i + 2]);
		one_byte(&now.carries[i + 1], &now.carries[i + 2]);
#ifdef BUG_TAKE_ON
		one_byte(&now.said_done[i + 1], &now.said_done[i + 2]);
#endif
#ifdef HELD
		one_byte(&now.held[i + 1], &now.held[i + 2]);
		one_byte(&now.sure[i + 1], &now.sure[i + 2]);
#endif
	}
}

static void all_go_on(void)
{
#ifdef OTHERS
	go_on(0);
	go_on(1);
	go_on(2);
#endif
}

/* After each step: what is in between is no state of its own. */
static void settle(void)
{
	do {
		all_go_on();
	} while (take_eager() && !now.wrong);
	forget();
	order = swaps = 0;
	each_of_both();
	if (order > 0 && MAY_SWAP) {
		swaps = 1;
		each_of_both();
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
#define STEP(guard, step) :: c_expr { guard } -> d_step { c_code { step; settle(); }; assert(wrong == 0) }

#define OF_SERVER(s) \
	STEP(now.faults && in (now.alive & DIES, s) && MAY_DIE, now.faults--; now.alive &= ~(1 << s)) \
	OF_LANE(s, 0) OF_LANE(s, 1) OF_LANE(s, 2)

#ifdef DURING
#define MAY_DIE now.asks
#else
#define MAY_DIE 1
#endif

#define OF_LANE(s, r) \
	STEP(can_notice (r, s), lose(r, s)) \
	STEP(can_cut (r, s), now.faults--; lose(r, s)) \
	STEP(can_hear_gone (r, s), hear_gone(r, s)) \
	OF_RESCUE(s, r) \
	OF_STREAM(0, s, r) OF_STREAM(1, s, r) OF_STREAM(2, s, r) OF_STREAM(3, s, r)

#ifdef OTHERS
#define OF_RESCUE(s, r) \
	STEP(can_join (r, s), join(r, s)) \
	STEP(can_hear_joined (r, s), hear_joined(r, s)) \
	OF_TOLD(s, r)
#else
#define OF_RESCUE(s, r)
#endif

#ifdef TOLD
#define OF_TOLD(s, r) STEP(can_be_told (r, s), be_told(r, s))
#define OF_WAIT(r) STEP(waits (r) && !in_rescue (r), stop_waiting(r))
#else
#define OF_TOLD(s, r)
#define OF_WAIT(r)
#endif

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
	STEP(can_abort (r), give_up(r)) \
	OF_WAIT(r) \
	OF_CANDIDATE(r)

#if ASKS > 0
#define OF_CANDIDATE(r) \
	STEP(can_hear_of (r), hear_of(r)) \
	STEP(can_promise (r), promise(r)) \
	STEP(can_refuse (r), refuse(r)) \
	STEP(can_hear_cancel (r), hear_cancel(r))
#define OPEN is_open ()
#else
#define OF_CANDIDATE(r)
#define OPEN 0
#endif

init {
	d_step {
		c_code {
			int r, g, server = SERVERS - 1;

			now.alive = (1 << SERVERS) - 1;
			now.faults = FAULTS;
			now.dead[0] = FIRST_DEAD;
			now.asked_dead = FIRST_DEAD;
#if ASKS > 0
			now.refusals = REFUSALS;
#endif
			for (r = 0; r < RANKS; r++) {
				now.promised[r] = EVER;
				now.closed[r] = FIRST_DEAD;
			}
			for (g = 0; g < CHUNKS; g++) {
				do {
					server = (server + 1) % SERVERS;
				} while (in (FIRST_DEAD, server));
				now.where[g] = server + 1;
			}
			settle();
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
#if ASKS > 0
	STEP(wanted (), seek(wanted()))
	STEP(may_conclude () && is_refused (), cancel())
	STEP(may_conclude () && !is_refused () && all_have_promised (), conclude(); applied_by_rank_0())
#endif
	STEP(can_say_epoch (), say_epoch(); applied_by_rank_0())
	:: c_expr { all_over () && !OPEN } -> d_step { c_code { check_end(); }; assert(wrong == 0) }; break
	od
}

#ifdef BUG_TURNS
/* States that come again, which `run.py --cycles` must find. */
active proctype turns()
{
	bit turn;

	do
	:: turn = 1 - turn
	od
}
#endif
