"""A link for Mininet that emulates rate, delay and loss where the kernel has no netem: `tccc link` as a Link class.

It takes the parameters of Mininet's own TCLink, so that one can stand for the other:

    net.addLink(h1, h2, cls=TcccLink, bw=10, delay="20ms", loss=1, max_queue_size=50)
"""

import ctypes
import os
import signal
import subprocess

from mininet.link import Link

TCCC = os.environ.get("TCCC", "tccc")


def _die_with_the_script():
    """The kernel ends the link when this script dies, however it does."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


class TcccLink(Link):
    """Two interfaces joined by `tccc link`; the same seed loses the same packets.

    bw: Mbit/s; none is unlimited.  delay, jitter: one way, such as "20ms".  loss: percent, of each direction.
    max_queue_size: packets.  seed: of the losses.
    """

    def __init__(self, node1, node2, **params):
        options = {
            "--rate": f'{params.pop("bw")}mbit' if params.get("bw") else None,
            "--delay": params.pop("delay", None) or "0ms",
            "--jitter": params.pop("jitter", None),
            "--loss": f'{params.pop("loss", 0) or 0}%',
            "--queue": f'{params.pop("max_queue_size", None) or 1000}pkts',
            "--seed": str(params.pop("seed", 1)),
        }
        params.pop("bw", None)
        self._names = []
        for number, node in ((1, node1), (2, node2)):
            port = params.pop(f"port{number}", None)
            params[f"port{number}"] = node.newPort() if port is None else port
            name = params.pop(f"intfName{number}", None)
            params[f"intfName{number}"] = name or self.intfName(node, params[f"port{number}"])
        ends = [f'{node1.pid}:{params["intfName1"]}', f'{node2.pid}:{params["intfName2"]}']
        given = [word for option, value in options.items() if value is not None for word in (option, value)]
        self.process = subprocess.Popen(
            [TCCC, "link", "--between", *ends, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_die_with_the_script,
        )
        self._wait_until_up()
        super().__init__(node1, node2, **params)

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
