/* Checks the values that every front end has. */
#include "orchestrator/frontend/rules.h"

#include <ctype.h>
#include <string.h>

#define DISPLAY_NAME_MAX 128

const char *const smd_accelerator_types[] = {"NVIDIA_TESLA_K80", "NVIDIA_TESLA_P100",
	"NVIDIA_TESLA_V100", "NVIDIA_TESLA_P4", "NVIDIA_TESLA_T4", "NVIDIA_TESLA_A100",
	"NVIDIA_A100_80GB", "NVIDIA_L4", "NVIDIA_H100_80GB", "NVIDIA_H100_MEGA_80GB",
	"NVIDIA_H200_141GB", "NVIDIA_B200", "NVIDIA_GB200", "NVIDIA_RTX_PRO_6000", "TPU_V2",
	"TPU_V3", "TPU_V4_POD", "TPU_V5_LITEPOD", SMD_ACCELERATOR_NONE, NULL};

const int smd_accelerator_numbers[] = {
	1, 2, 3, 4, 5, 8, 9, 11, 13, 14, 15, 16, 17, 18, 6, 7, 10, 12, 0};

_Static_assert(sizeof(smd_accelerator_numbers) / sizeof(int) ==
		       sizeof(smd_accelerator_types) / sizeof(char *) - 1,
	"a number for each type");

size_t smd_count_characters(const char *text)
{
	size_t count = 0;

	for (; *text; text++) {
		count += ((unsigned char)*text & 0xC0) != 0x80;
	}
	return count;
}

static int has_control_character(const char *text)
{
	while (*text && !iscntrl((unsigned char)*text)) {
		text++;
	}
	return *text != '\0';
}

void smd_check_display_name(struct smd_decoder *decoder, const struct smd_node *name)
{
	size_t length;

	if (!name || name->type != SMD_NODE_STRING) {
		return;
	}
	length = smd_count_characters(name->string);
	if (length > DISPLAY_NAME_MAX) {
		smd_error_at_value(decoder->diagnostics, name,
			"must have at most %d characters, got %zu", DISPLAY_NAME_MAX, length);
	}
	if (has_control_character(name->string)) {
		smd_error_at_value(decoder->diagnostics, name, "must not have control characters");
	}
}

int smd_image_is_reduction_server(const char *image)
{
	static const char name[] = "reductionserver";
	const char *slash = strrchr(image, '/');
	const char *base = slash ? slash + 1 : image;

	return strncmp(base, name, sizeof(name) - 1) == 0 && strchr(":@", base[sizeof(name) - 1]);
}

int smd_is_identifier(const char *name)
{
	for (const char *c = name; *c; c++) {
		unsigned char byte = (unsigned char)*c;

		if (byte >= 0x80 ||
			(byte != '_' && !isalpha(byte) && (c == name || !isdigit(byte)))) {
			return 0;
		}
	}
	return *name != '\0';
}
