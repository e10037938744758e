/*
 * A transport that wraps another and does it harm, for tests: late, cut, halved or withheld frames.
 *
 * Addresses are those of the wrapped one ("loopback:NAME", else tcp's), with or without "fault:" in
 * front. Harm is done to what a lane sends, by the end that is wrapped; what arrives passes
 * through, so wrap both ends to have it in both directions. Frames of a lane stay in order, as on a
 * wire; those of different lanes overtake each other.
 *
 * What is done is a list of items, in SUMMAND_FAULT or told by smd_fault_configure():
 *   delay=A..Bms       each frame leaves A to B milliseconds late
 *   rate=A..Bmbit      a lane carries A to B Mbit/s, drawn anew after each second
 *   short              a frame leaves in two parts (where the wrapped transport has streams: tcp)
 *   drop-after=BYTES   the lane is cut when it has sent so much: in the middle of a frame, with tcp
 *   kill-after=FRAMES  the lane is cut after so many frames
 *   stall-after=FRAMES the lane stays, but sends no more than so many frames
 *   lane=N             only the N-th lane of the process is harmed, from 0
 *   seed=N             what is drawn at random is drawn from this, and the lane's number
 */
#ifndef SMD_TRANSPORT_TESTING_FAULT_H
#define SMD_TRANSPORT_TESTING_FAULT_H

#include "reduction_server/transport/transport.h"

/*
 * For lanes made from now on, whose numbers begin at 0 again. NULL: as SUMMAND_FAULT says, which is
 * so at first. -EINVAL with the item that is wrong, and nothing has changed.
 */
int smd_fault_configure(const char *items, struct smd_error *error);

#endif
