"""The table of one configuration, and which targets it reaches."""

import plot
import watch

MIB = 1 << 20
PEERS = ("gloo", "openmpi")


def disturbed(found):
    return any(result.get("lost", 0) > watch.TOLERATED
               for results in found["systems"].values() for result in results.values())


def mean_us(result):
    return result.get("mean_us", result["us"])


def best_peer(found, size):
    """(time, system) of the fastest that reduces without servers, or None."""
    peers = [(results[size]["us"], name) for name, results in found["systems"].items()
             if name in PEERS and size in results]
    return min(peers, default=None)


def gb_per_s(size, us):
    return size / us / 1e3


def mark(*results):
    """Of what other work has disturbed."""
    return "*" if any(result.get("lost", 0) > watch.TOLERATED for result in results) else ""


def cell(size, result):
    if not result:
        return f"{'-':>40}"
    return f"{result['us']:>11.1f} {gb_per_s(size, result['us']):7.4f}{mark(result) or ' '} {result['algorithm']:<19.19}"


def to_plain(found, size):
    own, plain = (found["systems"].get(name, {}).get(size) for name in ("summand", "plain"))
    return f"{plain['us'] / own['us']:9.3f}" if own and plain else f"{'-':>9}"


def cost_lines(found):
    """Per size and system the 95th percentile, the spread of several rounds, and processor time by bytes reduced."""
    names = list(found["systems"])
    yield "  {:>6}{}".format("size", "".join(f"{name + ' (95 %: us; rank, server core-s/GB)':>48}" for name in names))
    for size in found["sizes"]:
        yield "  {:>6}{}".format(plot.size_text(size), "".join(
            cost_cell(results.get(size)) for results in found["systems"].values()))


def cost_cell(result):
    if not result:
        return f"{'-':>48}"
    spread = f"{result['least_us']:.0f}-{result['most_us']:.0f}" if result.get("rounds", 1) > 1 else ""
    return f"{spread:>20} {result['p95_us']:>11.1f} {result['rank_s_per_gb']:7.3f} {result.get('server_s_per_gb', 0):7.3f}"


def table(found):
    """Lines: per size each system's time (us), algbw (GB/s) and algorithm, then the ratios of bandwidths."""
    names = list(found["systems"])
    yield f"{found['title']}"
    link = found.get("link")
    if link:
        yield (f"  iperf3: {link['bytes_per_s'] / 1e9:.4f} GB/s; {link['both_s_per_gb']:.3f} core-s per GB at both ends; "
               + (f"{found['mesh']['server_s_per_gb']:.3f} at the servers' end of all links at once; " if found.get("mesh") else "") +
               f"limit of the links {found['limit'] / 1e9:.4f} GB/s, of a ring {found['ring'] / 1e9:.4f} GB/s")
    yield "  {:>6}{}  {:>9} {:>9} {:>9}".format("size", "".join(f"{name + ' (us, GB/s)':>40}" for name in names),
                                               "to peers", "to plain", "to limit")
    for size in found["sizes"]:
        own, peer = found["systems"].get("summand", {}).get(size), best_peer(found, size)
        ratio = f"{peer[0] / own['us']:9.3f}" if own and peer else f"{'-':>9}"
        limit = f"{gb_per_s(size, own['us']) * 1e9 / found['limit']:9.3f}" if own and link else f"{'-':>9}"
        yield "  {:>6}{}  {} {} {}".format(plot.size_text(size), "".join(
            cell(size, results.get(size)) for results in found["systems"].values()), ratio, to_plain(found, size), limit)
    yield from cost_lines(found)
    own = found["systems"].get("summand", {})
    for name, what in (("summand-told", "by defaults to that of servers that are told their rate"), ("summand-tls", "over TLS to that without"),
                       ("summand-bf16", "as bf16 to that in four"),
                       ("summand-fp16", "as fp16 to that in four")):
        other = found["systems"].get(name, {})
        first, second = (other, own) if name == "summand-told" else (own, other)
        if own and other:   # of all operations: where a shaper saves tokens, most of the short ones are fast and others pay for them
            yield f"  bandwidth {what}: " + ", ".join(
                f"{plot.size_text(size)} {mean_us(first[size]) / mean_us(second[size]):.3f}"
                for size in found["sizes"] if size in own and size in other)
    job = found["systems"].get("summand-job", {})
    if job and link:
        yield "  bandwidth of a job over ssh to the limit: " + ", ".join(
            f"{plot.size_text(size)} {gb_per_s(size, job[size]['us']) * 1e9 / found['limit']:.3f}" for size in found["sizes"] if size in job)
    if disturbed(found):
        yield "  * other work took the processors in every try"
    for name, reason in found["absent"].items():
        yield f"  {name}: not measured: {reason}"


def limit_checks(found, floors):
    """Ranks and servers that are started by hand, and the same as one job: a job costs nothing."""
    for name, kind in (("summand", ""), ("summand-job", " of a job")):
        own = found["systems"].get(name, {})
        for size, floor in floors.items():
            if size in own and "limit" in found:
                yield (f"{plot.size_text(size)}{kind} to the links' limit", gb_per_s(size, own[size]["us"]) * 1e9 / found["limit"], floor)


def peer_checks(found, floors):
    own = found["systems"]["summand"]
    for size, floor in floors.items():
        peer = best_peer(found, size)
        if size in own and peer:
            disturbed = mark(own[size], found["systems"][peer[1]][size])
            yield f"{plot.size_text(size)}{disturbed} to the best peer ({peer[1]})", peer[0] / own[size]["us"], floor


def bf16_checks(found, floors):
    own, narrow = found["systems"]["summand"], found["systems"].get("summand-bf16", {})
    for size, floor in floors.items():
        if size in own and size in narrow:
            yield f"{plot.size_text(size)} in two bytes an element to four", own[size]["us"] / narrow[size]["us"], floor


def plain_checks(found, targets):
    own, plain = found["systems"]["summand"], found["systems"].get("plain", {})
    for size, floor in targets.get("plain", {}).items():
        if size in own and size in plain:
            yield f"{plot.size_text(size)}{mark(own[size], plain[size])} to the plain server", plain[size]["us"] / own[size]["us"], floor
    size = max(own)
    if targets.get("plain_cost") and plain.get(size, {}).get("server_s_per_gb") and own[size]["server_s_per_gb"] > 0:
        yield (f"{plot.size_text(size)}, the plain server's core-seconds to the servers'",
               plain[size]["server_s_per_gb"] / own[size]["server_s_per_gb"], 1.0)


def checks(found, targets):
    """(what, ratio, what it must be at least) of each target."""
    yield from limit_checks(found, targets.get("limit", {}))
    own = found["systems"].get("summand")
    if not own:
        return
    yield from peer_checks(found, targets.get("peer", {}))
    gloo = found["systems"].get("gloo", {})
    if targets.get("half_of_gloo") and 4096 in own and 4096 in gloo:
        yield "4K to Gloo", gloo[4096]["us"] / own[4096]["us"], 2.0
    if targets.get("p95") and 4096 in own and 4096 in found["systems"].get("openmpi", {}):
        yield "4K, 95th percentile to Open MPI's", found["systems"]["openmpi"][4096]["p95_us"] / own[4096]["p95_us"], 1.0
    yield from bf16_checks(found, targets.get("bf16", {}))
    yield from plain_checks(found, targets)
    size = max(own)
    if targets.get("rank_cost") and gloo.get(size, {}).get("rank_s_per_gb") and own[size].get("rank_s_per_gb"):
        yield (f"{plot.size_text(size)}, Gloo's core-seconds to the ranks'",
               gloo[size]["rank_s_per_gb"] / own[size]["rank_s_per_gb"], 1.0)
    if targets.get("cost") and found.get("mesh") and own[size]["server_s_per_gb"] > 0:
        yield (f"{plot.size_text(size)}, iperf3's core-seconds to the servers'",
               found["mesh"]["server_s_per_gb"] / own[size]["server_s_per_gb"], 1.0)


def verdicts(found, targets):
    return [{"setup": found["name"], "target": what, "ratio": ratio, "floor": floor, "reached": ratio >= floor}
            for what, ratio, floor in checks(found, targets)]


def verdict_lines(verdicts_):
    for verdict in verdicts_:
        yield "  {:<8} {:<14} {:<52} {:6.3f} of at least {:.2f}".format(
            "reached" if verdict["reached"] else "MISSED", verdict["setup"], verdict["target"], verdict["ratio"],
            verdict["floor"])
