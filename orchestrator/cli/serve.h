/*
 * `summand serve`, which answers the Vertex AI API, and `summand env-gcloud`, which says how gcloud
 * finds it.
 */
#ifndef SMD_CLI_SERVE_H
#define SMD_CLI_SERVE_H

int smd_serve(int argc, char **argv);
int smd_env_gcloud(int argc, char **argv);

#endif
