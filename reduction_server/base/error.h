/*
 * The text of one failure, on its way from where it was found to whoever shows it.
 *
 * Inside the project a function that can fail returns 0 or -errno. Where the reader needs to know
 * more than the number, it also takes a `struct smd_error *` and writes a sentence of the form
 * "where: what must hold, got what". The first error wins: a later one does not overwrite it,
 * because the first is the cause. The pointer may be NULL when nobody will read the text.
 */
#ifndef SMD_BASE_ERROR_H
#define SMD_BASE_ERROR_H

#define SMD_ERROR_TEXT_MAX 512

struct smd_error {
	char text[SMD_ERROR_TEXT_MAX]; /* empty: nothing has failed */
};

/*
 * Writes the text unless one is there already; longer ones are cut. Its value is -err, so that a
 * caller can write `return smd_error_set(error, EINVAL, ...)`; `err` is a positive errno. A macro,
 * so that compilers see that the value is not 0.
 */
#define smd_error_set(error, err, ...)                                                             \
	(smd_error_write((error), __VA_ARGS__), smd_error_return(err))

static inline int smd_error_return(int err)
{
	return -err;
}

/* Leaves errno alone, which the format may print (%m) and the caller may return. */
void smd_error_write(struct smd_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What has failed beside the first, where one cause may have ended several: "; " and its text. */
void smd_error_add(struct smd_error *error, const char *text);

#endif
