/*
 * A model of what specs/design/exchange.md calls "A connection is lost": operations go from rank to rank, lanes between
 * ranks end, and reduction servers do what is left. All operations are in place. Servers are one stream
 * for each table; what ranks agree on when one dies is in epochs.pml.
 *
 * As in epochs.pml every step of the world is one atomic step of one process, and advances something that never goes
 * back; tests/model/run.py says which worlds are tried, and which bugs are planted.
 *
 *   CUTS       how many lanes between two ranks end by themselves, each at any time
 *   PIECES     that there are, at most six
 *   EACH       of an operation: so many
 *   HUB_FOR    pieces that one after another have the same hub
 *   BLOCKS     bit r: rank r begins an operation only when the one before has returned
 *   LATE       the hub may return an operation late, because the kernel has not taken what it sends
 *   REFUSALS   how often the table that ends exchanges is cancelled, and asked for again
 *   DEATHS     how often the servers die that do what is left: it is done again, from the first result on that some rank
 *              lacks
 *   SLOWLY     no step is taken at once (below): to show that this leaves nothing out
 *   TABLE      rank 0 may ask for another table first, without exchanges
 *   WAITS      a rank promises that one only when it has begun what rank 0 had, as where a server is drained
 *
 * Rules: 2 each result is the function of all inputs; 3 no rank is asked for what it has forgotten, or has given back to its
 * caller; 4 ranks send each other what they may, and all contribute to the same piece; 5 a rank has room for what
 * has returned and is dealt (SMD_HISTORY_OUTSIDE); 6 EPOCH is of what ranks have promised; 9 the model has room for what
 * is under way.
 */
#define RANKS   3
#define AT_ONCE 2 /* SMD_PIECES_AT_ONCE */
#define DEPTH   4 /* of a lane: what a window lets under way at most */
#ifndef CUTS
#define CUTS 1
#endif
#ifndef PIECES
#define PIECES 4
#endif
#ifndef EACH
#define EACH 1
#endif
#ifndef HUB_FOR
#define HUB_FOR 1
#endif
#ifndef BLOCKS
#define BLOCKS 0
#endif

byte cuts;  /* that are still to come */
byte wrong; /* the first rule that was broken */

/* Of each rank. Pieces are numbered through all operations, and so are operations, by their first ones. Sets have a bit for
 * each. */
byte next[RANKS];      /* of operations that its caller has begun, and that are laid out */
byte pieces[RANKS];    /* of them, as exchanges */
byte begun[RANKS];     /* and not kept back */
byte has[RANKS];       /* with their results */
byte spoilt[RANKS];    /* whose inputs a part of the result has overwritten */
byte returned[RANKS];
byte kept[RANKS];      /* pieces of these, */
byte results[RANKS];   /* and those of them that the hub has the result of */
byte done[RANKS];      /* the last piece with a result, and one more */
byte lacks[9];         /* [hub][rank]: the rank has said that it has all before this one */
byte open[RANKS];      /* ranks that it has a lane to */
byte lane[36];         /* [from][to][DEPTH]: what is under way */
byte inputs[PIECES]; /* ranks whose input the piece's hub has taken */

/* What is agreed. */
byte needed;          /* some rank has said so: MEETS(id, rank) */
byte over;            /* ranks that have heard AHEAD, and so closed their mesh, */
byte joined;          /* and joined the streams of the last one */
byte promised;        /* ranks */
byte said_first[RANKS]; /* N */
byte said_piece[RANKS]; /* m */
byte recorded;        /* rank 0 has said EPOCH(F, L): */
byte first;
byte lost_from;
byte handed;          /* ranks that have heard it */
#ifdef REFUSALS
byte refusals;        /* that are still to come */
byte cancelled;       /* ranks that are to hear CANCEL */
#endif
#ifdef TABLE
byte other;           /* the other table: */
byte other_heard;     /* ranks that have heard AHEAD of it, */
byte other_left;      /* CANCEL, */
byte other_promised;
byte other_taken;     /* or EPOCH */
byte other_said[RANKS];
byte other_first;
#ifdef WAITS
byte other_waits;     /* for operations before this one */
#endif
#endif

/* Streams: of the table that ends exchanges, and of the other one. */
byte reduced[2];      /* chunks that were */
byte carries[6];      /* [stream][rank]: what the rank has contributed to the next one, */
byte got[6];          /* and how many results it has had */
#ifdef DEATHS
byte deaths;          /* that are still to come */
#endif

c_code {
enum { INPUT, RESULT };                                         /* in lanes */
enum { NOTHING, AN_INPUT, SPOILT, ZEROS, A_RESULT, NO_RESULT }; /* carries[]: the last is zeros that are called a result */
enum { LAST, OTHER };                                           /* streams */
enum { NOT_ASKED, ASKED, CANCELLED, RECORDED };                 /* other */
enum { ALL = (1 << RANKS) - 1, EVERY = (1 << PIECES) - 1 };

static int in(int set, int x) { return set >> x & 1; }
static int hub_of(int p) { return RANKS - 1 - p / HUB_FOR % RANKS; }
static uchar *lane_of(int from, int to) { return &now.lane[(from * RANKS + to) * DEPTH]; }
static void rule(int holds, int number)
{
	if (!holds && !now.wrong) {
		now.wrong = (uchar)number;
	}
}

static int message(int kind, int p, int ordinal) { return 128 | ordinal << 4 | p << 1 | kind; }
static int kind_of(int m) { return m & 1; }
static int piece_of(int m) { return m >> 1 & 7; }
static int ordinal_of(int m) { return m >> 4 & 7; }

/* ---- pieces ---- */

/* Its mesh is not closed. */
static int meets(int r)
{
#ifdef BUG_GOES_ON /* before it hears EPOCH */
	return !in(now.handed, r);
#else
	return !in(now.over, r);
#endif
}

/* The first that it has no result of, or the next one that it will have. */
static int missing(int r)
{
	int p = 0;

	while (p < now.pieces[r] && in(now.has[r], p)) {
		p++;
	}
	return p;
}

static void send_to(int from, int to, int kind, int p)
{
	uchar *at = lane_of(from, to);
	int ordinal = kind == INPUT ? missing(from) : 0;
	int n = 0;

#ifdef BUG_ORDINAL_EARLY /* the piece that it begins, not the first that it lacks */
	ordinal = kind == INPUT ? p : 0;
#endif
	if (!in(now.open[from], to)) {
		return;
	}
	rule(kind == RESULT || !in(now.spoilt[from] | now.has[from], p), 3);
	while (n < DEPTH && at[n]) {
		n++;
	}
	rule(n < DEPTH, 9);
	if (n < DEPTH && in(now.open[to], from)) { /* else nobody takes it */
		at[n] = (uchar)message(kind, p, ordinal);
	}
}

static void piece_done(int r, int p)
{
	now.has[r] |= 1 << p;
	now.done[r] = p < now.done[r] ? now.done[r] : p + 1;
}

/* At the hub, when its own caller has begun it and all inputs are there. */
static void sum(int h, int p)
{
	int k;

	if (h != hub_of(p) || p >= now.begun[h] || in(now.has[h], p) || (now.inputs[p] | 1 << h) != ALL) {
		return;
	}
	piece_done(h, p);
	for (k = 1; k < RANKS; k++) {
		send_to(h, (h + k) % RANKS, RESULT, p);
	}
}

static int may_begin(int r)
{
	int p = now.begun[r];
	int most = AT_ONCE;

#ifdef BUG_ONE_MORE /* than is kept */
	most++;
#endif
	return p < now.pieces[r] && meets(r) && p - missing(r) < most;
}

static void begin_pieces(int r)
{
	while (may_begin(r)) {
		int p = now.begun[r]++;

		if (hub_of(p) == r) {
			sum(r, p);
		} else {
			send_to(r, hub_of(p), INPUT, p);
		}
	}
}

/* ---- what is kept ---- */

static void keep(int r, int p)
{
	int q;

	now.kept[r] |= 1 << p;
#ifndef BUG_HUB_FORGETS /* the hub forgets the result when it returns */
	now.results[r] |= (hub_of(p) == r) << p;
#endif
	for (q = 0; q + AT_ONCE < now.done[r]; q++) {
		now.kept[r] &= ~(1 << q);
		now.results[r] &= ~(1 << q);
	}
}

static void hear_lacks(int h, int r, int lacks)
{
	int least = PIECES;
	int q;

	now.lacks[h * RANKS + r] = (uchar)lacks;
	for (q = 0; q < RANKS; q++) {
#ifdef BUG_ONE_LACKS /* who says so is believed for all */
		if (q == r && now.lacks[h * RANKS + q] < least) {
#else
		if (q != h && now.lacks[h * RANKS + q] < least) {
#endif
			least = now.lacks[h * RANKS + q];
		}
	}
	for (q = 0; q < least; q++) {
		now.results[h] &= ~(1 << q);
	}
}

/* ---- lanes ---- */

static int can_take(int from, int to)
{
	return meets(to) && in(now.open[to], from) && *lane_of(from, to);
}

static int waiting(int h, int r)
{
	int n = 0;
	int p;

	for (p = now.begun[h]; p < PIECES; p++) {
		n += hub_of(p) == h && in(now.inputs[p], r);
	}
	return n;
}

static void take(int from, int to)
{
	uchar *at = lane_of(from, to);
	int m = *at;
	int p = piece_of(m);
	int i;

	for (i = 0; i < DEPTH; i++) {
		at[i] = i + 1 < DEPTH ? at[i + 1] : 0;
	}
	if (kind_of(m) == INPUT) {
		hear_lacks(to, from, ordinal_of(m));
		rule(hub_of(p) == to && !in(now.inputs[p], from), 4);
		now.inputs[p] |= 1 << from;
#ifndef BUG_ONE_MORE
		rule(waiting(to, from) <= AT_ONCE, 4);
#endif
		sum(to, p);
	} else {
		rule(p < now.begun[to] && !in(now.has[to], p), 4);
		piece_done(to, p);
	}
	begin_pieces(to);
}

/* A result may have come by half: it is received where the input is. */
static void close_lane(int r, int to)
{
	uchar *at = lane_of(to, r);
	int i;

	if (in(now.open[r], to) && *at && kind_of(*at) == RESULT) {
		now.spoilt[r] |= 1 << piece_of(*at);
	}
	for (i = 0; i < DEPTH; i++) {
		at[i] = 0;
	}
	now.open[r] &= ~(1 << to);
}

static int can_cut(int r, int to) { return now.cuts && in(now.open[r], to) && in(now.open[to], r); }
static int can_notice(int r, int to) { return in(now.open[r], to) && !in(now.open[to], r); }

/* ---- operations ---- */

static int is_piece(int r, int p) { return p < now.pieces[r]; }

/* The first operation that another table than this rank's first one is for. */
static int end_of_pieces(int r)
{
	int end = in(now.handed, r) ? now.first : PIECES;

#ifdef TABLE
	if (in(now.other_taken, r) && now.other_first < end) {
		end = now.other_first;
	}
#endif
	return end;
}

/* It begins none from here on before it hears more. */
static int kept_back_from(int r)
{
#ifndef BUG_BEGINS_ON
	if (in(now.promised & ~now.handed, r)) {
		return now.said_first[r];
	}
#endif
#ifdef TABLE
	if (in(now.other_promised & ~now.other_taken & ~now.other_left, r)) {
		return now.other_said[r];
	}
#endif
	return PIECES;
}

static int can_begin(int r)
{
	return now.next[r] < PIECES && now.next[r] < kept_back_from(r) &&
	       (!in(BLOCKS, r) || now.returned[r] == (1 << now.next[r]) - 1);
}

static void begin(int r)
{
	int p = now.next[r];

	now.next[r] += EACH;
	if (p < end_of_pieces(r)) {
		now.pieces[r] += EACH;
		begin_pieces(r);
	}
}

/* Whether the rank deals it to the stream. */
static int deals(int stream, int r, int p)
{
	int last = in(now.handed, r);

	if (p >= now.next[r]) {
		return 0;
	}
	if (!is_piece(r, p)) {
		return (last && p >= now.first) == (stream == LAST);
	}
#ifdef BUG_KEPT_LEFT /* what has returned is not dealt */
	if (in(now.kept[r], p)) {
		return 0;
	}
#endif
#ifdef BUG_KEPT_BACK_LEFT /* nor what was kept back */
	if (p >= now.begun[r]) {
		return 0;
	}
#endif
	return stream == LAST && last && p >= now.lost_from && p < now.first;
}

/* The one with that ordinal; PIECES: there is none yet. */
static int dealt_at(int stream, int r, int k)
{
	int p;

	for (p = 0; p < PIECES; p++) {
		if (deals(stream, r, p) && k-- == 0) {
			return p;
		}
	}
	return PIECES;
}

static int place_of(int stream, int r, int p)
{
	int k = 0;
	int q;

	for (q = 0; q < p; q++) {
		k += deals(stream, r, q);
	}
	return k;
}

/* Results of the stream that all ranks have. */
static int stable(int stream)
{
	const uchar *all = &now.got[stream * RANKS];
	int least = all[0] < all[1] ? all[0] : all[1];

	return all[2] < least ? all[2] : least;
}

/* What servers do is over when all have it. */
static int is_over(int r, int p)
{
	int stream;

	for (stream = 0; stream < 2; stream++) {
#ifdef BUG_RETURNS_EARLY /* when this rank has it */
		if (deals(stream, r, p) && place_of(stream, r, p) >= now.got[stream * RANKS + r]) {
#else
		if (deals(stream, r, p) && place_of(stream, r, p) >= stable(stream)) {
#endif
			return 0;
		}
	}
	return in(now.has[r], p);
}

#ifdef LATE
static const int returns_late = 1;
#else
static const int returns_late = 0;
#endif

/* An operation, of which that is the first piece. The hub's may still be sending. */
static int can_return(int r, int p)
{
	int q, over = !in(now.returned[r], p);

	for (q = p; q < p + EACH; q++) {
		over = over && is_over(r, q);
	}
	return over;
}

static int may_be_late(int r, int p)
{
	int q, late = 0;

	for (q = p; q < p + EACH; q++) {
		late |= returns_late && hub_of(q) == r && !in(now.handed, r);
	}
	return late;
}

static void give_back(int r, int p)
{
	int q;

	for (q = p; q < p + EACH; q++) {
		now.returned[r] |= 1 << q;
		if (!in(now.handed, r)) {
			keep(r, q);
		}
	}
}

/* ---- servers ---- */

/* Nothing is read of what its caller has back. */
static int contribution(int r, int p)
{
	if (in(now.returned[r], p)) {
		rule(in(now.kept[r], p), 3);
#ifdef BUG_READS_ON /* the caller's memory */
		rule(in(now.results[r], p), 3);
#endif
#ifdef BUG_ZEROS_COUNT /* as a result */
		return in(now.results[r], p) ? A_RESULT : NO_RESULT;
#else
		return in(now.results[r], p) ? A_RESULT : ZEROS;
#endif
	}
	if (in(now.has[r], p)) {
		return A_RESULT;
	}
	return in(now.spoilt[r], p) ? SPOILT : AN_INPUT;
}

static int can_contribute(int stream, int r)
{
	int i = stream * RANKS + r;

	return now.carries[i] == NOTHING && now.got[i] == now.reduced[stream] && dealt_at(stream, r, now.got[i]) != PIECES;
}

static void contribute(int stream, int r)
{
	int i = stream * RANKS + r;

	now.carries[i] = (uchar)contribution(r, dealt_at(stream, r, now.got[i]));
}

static int can_reduce(int stream)
{
	const uchar *all = &now.carries[stream * RANKS];

	return all[0] && all[1] && all[2];
}

/* A result is passed on, else all must be inputs. */
static void reduce(int stream)
{
	uchar *all = &now.carries[stream * RANKS];
	int k = now.reduced[stream]++;
	int sound = all[0] == AN_INPUT && all[1] == AN_INPUT && all[2] == AN_INPUT;
	int r;

	for (r = 0; r < RANKS; r++) {
		rule(dealt_at(stream, r, k) == dealt_at(stream, 0, k), 4); /* all contribute to the same */
		sound |= all[r] == A_RESULT;
	}
	for (r = 0; r < RANKS; r++) {
		rule(sound && all[r] != NO_RESULT, 2);
		all[r] = NOTHING;
	}
}

static int can_get(int stream, int r) { return now.got[stream * RANKS + r] < now.reduced[stream]; }

/* Who has had it drops the second one. */
static void get(int stream, int r)
{
	int p = dealt_at(stream, r, now.got[stream * RANKS + r]++);

	now.has[r] |= 1 << p;
#ifdef BUG_KEPT_GONE /* what is kept goes when it has come back, to this rank */
	now.results[r] &= ~(1 << p);
#endif
}

#ifdef DEATHS
static int can_die(void) { return now.deaths && now.handed == ALL; }

/* All seal what they have, and go on at another server. */
static void die(void)
{
	int r;

	now.deaths--;
	now.reduced[LAST] = stable(LAST);
	for (r = 0; r < RANKS; r++) {
		now.carries[LAST * RANKS + r] = NOTHING;
		now.got[LAST * RANKS + r] = now.reduced[LAST];
	}
}
#endif

/* ---- agreement ---- */

/* The oldest piece that has been begun and has no result needs a lane that has ended. */
static int is_cut(int r)
{
	int p = missing(r);

	if (p >= now.begun[r] || in(now.over, r)) {
		return 0;
	}
	return hub_of(p) == r ? (ALL & ~now.inputs[p] & ~(1 << r) & ~now.open[r]) != 0 : !in(now.open[r], hub_of(p));
}

static int can_need(int r) { return is_cut(r) && !now.needed && !in(now.over, 0); }
static void need(int r) { now.needed = 1; }

/* It hears what rank 0 has said before. */
static int is_behind(int r)
{
#ifdef REFUSALS
	if (in(now.cancelled, r)) {
		return 1;
	}
#endif
#ifdef TABLE
	return (now.other == CANCELLED && in(now.other_heard & ~now.other_left, r)) ||
	       (now.other == RECORDED && !in(now.other_taken, r)) || (now.other == ASKED && !in(now.other_heard, r));
#else
	return 0;
#endif
}

static int can_hear_ahead(int r)
{
	int asked = r == 0 ? now.needed || now.over : in(now.joined, 0);

#if defined(TABLE) && defined(BUG_NO_CANCEL) /* the other table is waited for */
	if (r == 0 && now.other == ASKED) {
		return 0;
	}
#endif
	return asked && !in(now.joined, r) && (r == 0 || !is_behind(r));
}

static void hear_ahead(int r)
{
	int q;

	now.over |= 1 << r;
	now.joined |= 1 << r;
#ifdef TABLE
	if (r == 0 && now.other == ASKED) {
		now.other = CANCELLED;
		now.other_left |= 1;
	}
#endif
	for (q = 0; q < RANKS && !meets(r); q++) {
		close_lane(r, q);
	}
}

static int all_have_joined(void)
{
#ifdef REFUSALS
	return now.joined == ALL && !now.cancelled;
#else
	return now.joined == ALL;
#endif
}

static int can_promise(int r) { return all_have_joined() && !in(now.promised, r); }

static void promise(int r)
{
	now.promised |= 1 << r;
	now.said_first[r] = now.next[r];
	now.said_piece[r] = (uchar)missing(r);
}

static int can_say_epoch(void)
{
#ifdef BUG_ENDS_ONE_MISSING /* the promise of one rank is not waited for */
	return !now.recorded && all_have_joined() && (now.promised & 3) == 3;
#else
	return !now.recorded && all_have_joined() && now.promised == ALL;
#endif
}

#ifdef REFUSALS
/* A rank cannot join, or loses a server: all that have joined hear so, and then AHEAD again. */
static int can_cancel(void) { return now.refusals && in(now.joined, 0) && !now.recorded; }

static void hear_cancel(int r)
{
	now.joined &= ~(1 << r);
	now.promised &= ~(1 << r);
	now.cancelled &= ~(1 << r);
}

static void cancel(void)
{
	now.refusals--;
	now.cancelled = now.joined;
	hear_cancel(0);
}
#endif

static void apply(int r)
{
	int n = 0;
	int q;

	now.handed |= 1 << r;
	for (q = 0; q < RANKS; q++) {
		close_lane(r, q);
	}
#ifndef BUG_LARGEST_PIECE
	rule(now.lost_from <= missing(r), 6);
#endif
	for (q = now.lost_from; q < now.done[r] && q < now.first; q++) { /* nobody has forgotten any */
		rule(!in(now.returned[r], q) || in(now.kept[r], q), 3);
		n += in(now.kept[r], q);
	}
	rule(n <= AT_ONCE, 5);
}

static void say_epoch(void)
{
	int r;

	now.recorded = 1;
	now.first = now.said_first[0];
	now.lost_from = now.said_piece[0];
	for (r = 1; r < RANKS; r++) {
		if (!in(now.promised, r)) {
			continue;
		}
#ifndef BUG_ENDS_AT_OWN /* rank 0 takes its own N for F */
		now.first = now.said_first[r] > now.first ? now.said_first[r] : now.first;
#endif
#ifdef BUG_LARGEST_PIECE /* not the smallest m */
		now.lost_from = now.said_piece[r] > now.lost_from ? now.said_piece[r] : now.lost_from;
#else
		now.lost_from = now.said_piece[r] < now.lost_from ? now.said_piece[r] : now.lost_from;
#endif
	}
	apply(0);
}

static int can_apply(int r) { return r && now.recorded && in(now.joined, r) && !in(now.handed, r); }

/* ---- another table ---- */

#ifdef TABLE
static int can_seek(void) { return now.other == NOT_ASKED && !in(now.over, 0); }

static void seek(void)
{
	now.other = ASKED;
	now.other_heard = 1;
#ifdef WAITS
	now.other_waits = now.next[0];
#endif
}

static int can_hear_other(int r) { return now.other != NOT_ASKED && !in(now.other_heard, r) && !in(now.over, r); }
static void hear_other(int r) { now.other_heard |= 1 << r; }

/* All have joined its streams. */
static int can_promise_other(int r)
{
#ifdef WAITS
	if (now.next[r] < now.other_waits) {
		return 0;
	}
#endif
	return now.other_heard == ALL && !in(now.other_promised | now.other_taken | now.other_left, r);
}

/* From the next operation but one, or, where a server is drained, from the next. */
static void promise_other(int r)
{
#ifdef WAITS
	now.other_said[r] = now.next[r];
#else
	now.other_said[r] = now.next[r] + EACH > PIECES ? PIECES : now.next[r] + EACH;
#endif
	now.other_promised |= 1 << r;
}

static int can_record_other(void) { return now.other == ASKED && now.other_promised == ALL; }

static void record_other(void)
{
	int r;

	now.other = RECORDED;
	for (r = 0; r < RANKS; r++) {
		now.other_first = now.other_said[r] > now.other_first ? now.other_said[r] : now.other_first;
	}
	now.other_taken |= 1;
}

static int can_take_other(int r) { return now.other == RECORDED && !in(now.other_taken, r); }
static void take_other(int r) { now.other_taken |= 1 << r; }
static int can_leave_other(int r) { return now.other == CANCELLED && in(now.other_heard & ~now.other_left, r); }
static void leave_other(int r) { now.other_left |= 1 << r; }
#endif

/* ---- order ---- */

/*
 * Some steps disable no other one, and change nothing that a rule looks at, whenever they are taken: such a step is taken at
 * once, and no other order is tried. An operation's return, where it is not LATE, and of who is not the hub: its input
 * has gone out when the result is there. To find that a lane has ended when nothing more comes, and to say that it is
 * needed: what follows may come at any time. To hear EPOCH: nothing is begun between that and the promise. What
 * servers do, and all that is left when all have heard EPOCH.
 */
static int take_eager_of(int r)
{
	int p, q;

	for (p = 0; p < PIECES; p += EACH) {
		if (can_return(r, p) && !may_be_late(r, p)) {
			give_back(r, p);
			return 1;
		}
	}
	for (q = 0; q < RANKS; q++) {
		if (can_notice(r, q) && !*lane_of(q, r)) {
			close_lane(r, q);
			return 1;
		}
	}
	if (can_need(r)) {
		need(r);
		return 1;
	}
	if (can_apply(r)) {
		apply(r);
		return 1;
	}
	if (now.handed == ALL && can_begin(r)) {
		begin(r);
		return 1;
	}
	return 0;
}

static int may_die(int stream)
{
#ifdef DEATHS
	return stream == LAST && now.deaths;
#else
	return 0;
#endif
}

static int take_eager(void)
{
	int r, s;

#ifdef SLOWLY
	return 0;
#endif
	for (r = 0; r < RANKS; r++) {
		if (take_eager_of(r)) {
			return 1;
		}
	}
	for (s = 0; s < 2; s++) {
		for (r = 0; r < RANKS; r++) {
			if (can_contribute(s, r)) {
				contribute(s, r);
				return 1;
			}
			if (can_get(s, r) && !may_die(s)) {
				get(s, r);
				return 1;
			}
		}
		if (can_reduce(s)) {
			reduce(s);
			return 1;
		}
	}
	return 0;
}

/* What nobody looks at any more. */
static void forget(void)
{
	int r, p;

	for (p = 0; p < PIECES; p++) {
		now.inputs[p] = !meets(hub_of(p)) || in(now.has[hub_of(p)], p) ? 0 : now.inputs[p];
	}
	for (r = 0; r < RANKS; r++) {
		now.spoilt[r] &= ~now.has[r];
		if (in(now.over, r)) {
			now.lacks[3 * r] = now.lacks[3 * r + 1] = now.lacks[3 * r + 2] = 0;
		}
	}
	if (in(now.over, 0)) {
		now.needed = 0;
	}
#ifdef TABLE
	for (r = 0; r < RANKS; r++) {
		if (in(now.other_taken | now.other_left, r)) {
			now.other_heard |= 1 << r;
			now.other_promised &= ~(1 << r);
			now.other_said[r] = 0;
		}
	}
#ifdef WAITS
	now.other_waits = now.other == ASKED ? now.other_waits : 0;
#endif
#endif
}

/* After each step: what is in between is no state of its own. */
static void settle(void)
{
	while (!now.wrong && take_eager()) {
	}
	forget();
}

static int all_over(void)
{
	return now.returned[0] == EVERY && now.returned[1] == EVERY && now.returned[2] == EVERY;
}
}

/* spin takes NAME( in an expression for a side effect, but not NAME (. */
#define STEP(guard, step) :: c_expr { guard } -> d_step { c_code { step; settle(); }; assert(wrong == 0) }

#define OF_LANE(r, to) \
	STEP(can_take (r, to), take(r, to)) \
	STEP(can_cut (r, to), now.cuts--; close_lane(r, to)) \
	STEP(can_notice (r, to), close_lane(r, to))

#define OF_OPERATION(r, p) STEP(p % EACH == 0 && can_return (r, p), give_back(r, p))

#define OF_RANK(r) \
	STEP(can_begin (r), begin(r)) \
	STEP(can_hear_ahead (r), hear_ahead(r)) \
	STEP(can_get (LAST, r), get(LAST, r)) \
	STEP(can_promise (r), promise(r)) \
	OF_OPERATION(r, 0) OF_OPERATION(r, 1) OF_OPERATION(r, 2) OF_OPERATION(r, 3) OF_LATER(r) \
	OF_CANCEL(r) \
	OF_TABLE(r) \
	OF_SLOW(r)

#ifdef SLOWLY
#define OF_SLOW(r) \
	STEP(can_need (r), need(r)) \
	STEP(can_apply (r), apply(r)) \
	STEP(can_contribute (LAST, r), contribute(LAST, r)) \
	STEP(can_contribute (OTHER, r), contribute(OTHER, r)) \
	STEP(can_get (OTHER, r), get(OTHER, r)) \
	STEP(r == 0 && can_reduce (LAST), reduce(LAST)) \
	STEP(r == 0 && can_reduce (OTHER), reduce(OTHER))
#else
#define OF_SLOW(r)
#endif

#ifdef REFUSALS
#define OF_CANCEL(r) STEP(in (now.cancelled, r), hear_cancel(r))
#else
#define OF_CANCEL(r)
#endif

#if PIECES > 5
#define OF_LATER(r) OF_OPERATION(r, 4) OF_OPERATION(r, 5)
#elif PIECES > 4
#define OF_LATER(r) OF_OPERATION(r, 4)
#else
#define OF_LATER(r)
#endif

#ifdef TABLE
#define OF_TABLE(r) \
	STEP(can_hear_other (r), hear_other(r)) \
	STEP(can_promise_other (r), promise_other(r)) \
	STEP(can_take_other (r), take_other(r)) \
	STEP(can_leave_other (r), leave_other(r))
#else
#define OF_TABLE(r)
#endif

init {
	d_step {
		c_code {
			int r;

			now.cuts = CUTS;
#ifdef DEATHS
			now.deaths = DEATHS;
#endif
#ifdef REFUSALS
			now.refusals = REFUSALS;
#endif
			for (r = 0; r < RANKS; r++) {
				now.open[r] = ALL & ~(1 << r);
			}
		}
	}
	do
	OF_LANE(0, 1)
	OF_LANE(0, 2)
	OF_LANE(1, 0)
	OF_LANE(1, 2)
	OF_LANE(2, 0)
	OF_LANE(2, 1)
	OF_RANK(0)
	OF_RANK(1)
	OF_RANK(2)
#ifdef DEATHS
	STEP(can_die (), die())
#endif
#ifdef REFUSALS
	STEP(can_cancel (), cancel())
#endif
#ifdef TABLE
	STEP(can_seek (), seek())
	STEP(can_record_other (), record_other())
#endif
	STEP(can_say_epoch (), say_epoch())
	:: c_expr { all_over () } -> break
	od
}
