// Turns bind(2) on all addresses into bind(2) on loopback, for programs that have no setting for
// it: LD_PRELOAD=loopback.so program. An IPv6 socket gets the IPv4 address 127.0.0.1, mapped.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int bind(int fd, const struct sockaddr *given, socklen_t size) {
	static int (*original)(int, const struct sockaddr *, socklen_t);
	if (!original) *(void **)&original = dlsym(RTLD_NEXT, "bind");
	if (given && given->sa_family == AF_INET && size >= sizeof(struct sockaddr_in)) {
		struct sockaddr_in a;
		memcpy(&a, given, sizeof a);
		if (a.sin_addr.s_addr == htonl(INADDR_ANY)) a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return original(fd, (struct sockaddr *)&a, sizeof a);
	}
	if (given && given->sa_family == AF_INET6 && size >= sizeof(struct sockaddr_in6)) {
		static const unsigned char mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
		struct sockaddr_in6 a;
		memcpy(&a, given, sizeof a);
		if (IN6_IS_ADDR_UNSPECIFIED(&a.sin6_addr)) memcpy(&a.sin6_addr, mapped, sizeof mapped);
		return original(fd, (struct sockaddr *)&a, sizeof a);
	}
	return original(fd, given, size);
}
