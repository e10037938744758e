/*
 * `summand send-notices`: tells a webhook of changes of jobs. The service calls it.
 */
#ifndef SMD_CLI_SEND_NOTICES_H
#define SMD_CLI_SEND_NOTICES_H

int smd_send_notices(int argc, char **argv);

#endif
