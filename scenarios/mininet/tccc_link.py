"""A link for Mininet that emulates rate, delay and loss where the kernel has no netem: `tccc link` as a Link class.

It takes the main parameters of Mininet's own TCLink, so that one can stand for the other:

    net.addLink(h1, h2, cls=TcccLink, bw=10, delay="20ms", loss=1, max_queue_size=50)
"""

import ctypes
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

from mininet.link import Intf, Link

TCCC = os.environ.get("TCCC", "tccc")
# The kernel ends a link when the thread that started it ends. This one ends with the script.
_STARTER = ThreadPoolExecutor(max_workers=1)
_OF_LINK = {"bw", "delay", "jitter", "loss", "max_queue_size", "seed"}
_OF_INTERFACE = {"mac", "ip", "ifconfig", "up"}
_OF_MININET = {"port1", "port2", "intfName1", "intfName2", "addr1", "addr2", "intf", "cls1", "cls2", "fast"}


def _die_with_the_script():
    """The kernel ends the link when this script dies, however it does."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def _check(what, given, known):
    unknown = sorted(set(given) - known)
    if unknown:
        raise TypeError(f'{what} cannot set "{unknown[0]}": it has {", ".join(sorted(known))}')


def _time(name, value):
    if value is not None and not isinstance(value, str):
        raise TypeError(f'TcccLink: {name} = {value}: expected a time with its unit, such as "5ms"')
    return value or None


class TcccIntf(Intf):
    """An interface of a TcccLink. Its rate, delay and loss are those of the link, and stay."""

    def config(self, **params):
        _check("an interface of TcccLink", params, _OF_INTERFACE)
        return super().config(**params)


class TcccLink(Link):
    """Two interfaces joined by `tccc link`; the same seed loses the same packets.

    bw: Mbit/s; none is unlimited.  delay, jitter: one way, such as "20ms".  loss: percent, of each direction.
    max_queue_size: packets.  seed: of the losses.  Other parameters of TCLink are refused.
    """

    def __init__(self, node1, node2, **params):
        _check("TcccLink", params, _OF_LINK | _OF_MININET | {"params1", "params2"})
        for name in ("params1", "params2"):
            _check(f"{name} of TcccLink", params.get(name) or {}, _OF_INTERFACE - {"mac"})
        options = {
            "--rate": f'{params.pop("bw")}mbit' if params.get("bw") else None,
            "--delay": _time("delay", params.pop("delay", None)) or "0ms",
            "--jitter": _time("jitter", params.pop("jitter", None)),
            "--loss": f'{params.pop("loss", 0) or 0}%',
            "--queue": f'{params.pop("max_queue_size", None) or 1000}pkts',
            "--seed": str(params.pop("seed", 1)),
        }
        params.pop("bw", None)
        for number, node in ((1, node1), (2, node2)):
            port = params.pop(f"port{number}", None)
            params[f"port{number}"] = node.newPort() if port is None else port
            name = params.pop(f"intfName{number}", None)
            params[f"intfName{number}"] = name or self.intfName(node, params[f"port{number}"])
        ends = [f'{node1.pid}:{params["intfName1"]}', f'{node2.pid}:{params["intfName2"]}']
        given = [word for option, value in options.items() if value is not None for word in (option, value)]
        self.process = _STARTER.submit(
            subprocess.Popen,
            [TCCC, "link", "--between", *ends, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_die_with_the_script,
        ).result()
        self._wait_until_up()
        super().__init__(node1, node2, **{"intf": TcccIntf, **params})

    def _wait_until_up(self):
        said = []
        for line in self.process.stderr:
            if " is up" in line:
                return
            said.append(line.strip())
        raise RuntimeError(f'tccc link: {" ".join(said)}')

    @classmethod
    def makeIntfPair(cls, *_names, **_options):
        """Makes nothing: `tccc link` made the interfaces in the nodes."""

    def delete(self):
        """Ends the link, and with it both interfaces; returns what it carried, as text."""
        if self.process.poll() is None:
            self.process.terminate()
        carried, _ = self.process.communicate()
        self.intf1 = self.intf2 = None
        return carried
