/*
 * The flags that gcloud takes with each of its commands, as one table for all commands here, so that
 * command lines carry over. Those of the place say which jobs of a service are meant; the others are
 * accepted, and are without effect.
 */
#ifndef SMD_FRONTEND_GLOBAL_FLAGS_H
#define SMD_FRONTEND_GLOBAL_FLAGS_H

/* Rows of any table: value(NAME, METAVAR) and on_off(NAME) make one each. */
#define SMD_PLACE_FLAGS(value) value("region", "REGION"), value("project", "PROJECT")
#define SMD_GLOBAL_FLAGS(value, on_off)                                                            \
	value("account", "ACCOUNT"), value("impersonate-service-account", "ACCOUNT"),              \
		value("access-token-file", "FILE"), value("billing-project", "PROJECT"),           \
		value("configuration", "NAME"), on_off("log-http"), value("trace-token", "TOKEN"), \
		on_off("user-output-enabled"), value("verbosity", "LEVEL"), on_off("quiet")

#endif
