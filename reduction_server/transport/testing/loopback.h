/*
 * What a test may do to lanes of the loopback transport from outside, as a kernel or a network
 * does.
 *
 * A lane belongs to two *processes*, which a simulation plays in one real process. They are numbers
 * that the test gives.
 */
#ifndef SMD_TRANSPORT_TESTING_LOOPBACK_H
#define SMD_TRANSPORT_TESTING_LOOPBACK_H

/* Says which process listens or connects now. Set it before the first call; NULL: there is only 0.
 */
extern unsigned (*smd_loopback_process)(void);

#define SMD_LOOPBACK_ANY (-1)

/*
 * Cuts the lanes between the two processes (or ANY), on any thread: of the frames that are on their
 * way to one end the first `keep` still arrive, then both ends learn that the lane has ended.
 * Process `a` also stops listening when `b` is ANY, as it has died.
 */
void smd_loopback_cut(int a, int b, unsigned keep);

#endif
