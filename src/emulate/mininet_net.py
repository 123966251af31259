"""A layout of tccc as hosts of Mininet.

Started by tccc with Debian's Python. Reads the layout as one line of JSON, makes the hosts and answers with their
processes; waits for a line that says that the links' interfaces are there, then takes them in, addresses them and adds
the routes; holds the network until its input ends, as it does when tccc is killed.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import threading

from mininet.link import Link
from mininet.log import setLogLevel
from mininet.net import Mininet


# Seconds that taking the network down may take once nobody needs it; a host that hangs would hold it up forever.
GRACE_S = 10


class MadeLink(Link):
    """A link whose two interfaces tccc has made in the hosts."""

    @classmethod
    def makeIntfPair(cls, *_names, **_options):
        """Makes nothing: the interfaces are there."""

    def delete(self):
        """Deletes nothing: the interfaces go with tccc's link."""


def answer(value):
    """Says one line of JSON."""
    print(json.dumps(value), flush=True)


def run(host, command):
    """Runs a command in a host; what it prints is an error."""
    said = host.cmd(command).strip()
    if said:
        raise RuntimeError(f'"{command}" in {host.name}: {said}')


def add_links(net, layout):
    """Takes in the interfaces and gives them their addresses."""
    for link in layout["links"]:
        one, other = link["ends"]
        made = net.addLink(
            net[one["node"]],
            net[other["node"]],
            cls=MadeLink,
            intfName1=one["interface"],
            intfName2=other["interface"],
        )
        for interface, end in ((made.intf1, one), (made.intf2, other)):
            said = interface.setIP(end["address"], layout["prefix"]).strip()
            if said:
                raise RuntimeError(f'the address of {end["interface"]} in {end["node"]}: {said}')


def add_routes(net, layout):
    """Gives every host its own address, and one route to every other."""
    for node in layout["nodes"]:
        host = net[node["name"]]
        run(host, "ifconfig lo up")
        run(host, f'ip address add {node["address"]}/32 dev lo')
        for route in node["routes"]:
            quickack = " quickack 1" if route["quickack"] else ""
            run(host, f'ip route add {route["to"]} via {route["gateway"]}{quickack}')


def end_without_mininet():
    """Ends the hosts, and this process in the midst of whatever it waits for."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as children:
        for child in map(int, children.read().split()):
            for end in (os.killpg, os.kill):  # a host that is being made leads no group yet
                with contextlib.suppress(ProcessLookupError):
                    end(child, signal.SIGKILL)
    os._exit(1)


def pass_lines(lines, is_down):
    """Passes the input on; an empty line is its end, after which the network must go."""
    for line in sys.stdin:
        lines.put(line)
    lines.put("")
    if not is_down.wait(GRACE_S):
        end_without_mininet()


def main():
    """Builds the network, and takes it down when the input ends."""
    lines, is_down = queue.Queue(), threading.Event()
    threading.Thread(target=pass_lines, args=(lines, is_down), daemon=True).start()
    setLogLevel("error")
    Mininet.inited = True  # else Mininet raises limits and sysctls of the whole machine
    layout = json.loads(lines.get())
    net = Mininet(controller=None)
    try:
        for node in layout["nodes"]:
            net.addHost(node["name"])
        answer({"processes": {node["name"]: net[node["name"]].pid for node in layout["nodes"]}})
        if lines.get():
            add_links(net, layout)
            add_routes(net, layout)
            answer({"built": True})
            lines.get()
    except (RuntimeError, OSError) as error:
        answer({"error": str(error)})
    finally:
        net.stop()
        is_down.set()


main()
