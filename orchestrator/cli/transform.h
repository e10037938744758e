/*
 * What is done to a value before it is printed: gcloud's name.basename() and others, as far as they
 * are about a text.
 */
#ifndef SMD_CLI_TRANSFORM_H
#define SMD_CLI_TRANSFORM_H

/* The functions, for messages. */
#define SMD_TRANSFORMS "basename(), date(), lower(), scope(NAME), segment(N) or upper()"

enum smd_transform_kind {
	SMD_TRANSFORM_NONE,
	SMD_TRANSFORM_BASENAME,
	SMD_TRANSFORM_DATE,
	SMD_TRANSFORM_LOWER,
	SMD_TRANSFORM_SCOPE,
	SMD_TRANSFORM_SEGMENT,
	SMD_TRANSFORM_UPPER
};

struct smd_transform {
	enum smd_transform_kind kind;
	const char *argument; /* in the path that it was cut from; "" without one */
};

/* Cuts ".NAME(ARGUMENT)" from the end of a path. 0, also where there is none, or -EINVAL: it is
 * not known, or its argument cannot be. */
int smd_transform_take(struct smd_transform *transform, char *path);

/* A resource name's last part, or its Nth part, or what follows /NAME/; a time's seconds; the text
 * in other letters. In place. */
void smd_transform_apply(const struct smd_transform *transform, char *text);

#endif
