/* Attaches socket_pacing.bpf.o to a control group of version 2 until it is killed.
 *
 * attach_pacing OBJECT GROUP BYTES_PER_S
 */
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
	struct bpf_object *object;
	struct bpf_program *program;
	struct bpf_link *link;
	struct bpf_map *map;
	unsigned int rate;
	int group;

	if (count != 4) {
		fprintf(stderr, "usage: attach_pacing OBJECT GROUP BYTES_PER_S\n");
		return 2;
	}
	rate = strtoul(words[3], NULL, 10);
	object = bpf_object__open_file(words[1], NULL);
	if (!object)
		return 1;
	bpf_object__for_each_map(map, object)
		if (strstr(bpf_map__name(map), ".rodata"))
			bpf_map__set_initial_value(map, &rate, sizeof(rate));
	if (bpf_object__load(object))
		return 1;
	group = open(words[2], O_RDONLY | O_DIRECTORY);
	program = bpf_object__find_program_by_name(object, "limit_pacing");
	link = bpf_program__attach_cgroup(program, group);
	if (!link)
		return 1;
	for (;;)
		pause();
}
