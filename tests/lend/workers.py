"""Threads that work on a node until they are told to stop, or until the first thing that is wrong."""

import threading
import time

STOP_SECONDS_MAX = 120


class Workers:
    """So many threads. `work(number, client)` of a subclass is what each does again and again, in the `with` of what
    `begin(number)` gives."""

    def __init__(self, threads):
        self.counts, self.failures = [0] * threads, []
        self._ending = threading.Event()
        self._threads = []

    def start(self):
        for number in range(len(self.counts)):
            self._threads.append(threading.Thread(target=self._run, args=(number,), daemon=True))
            self._threads[-1].start()
        return self

    def stop(self):
        """Ends the threads. Fails if one has failed."""
        self._ending.set()
        self._join()
        self._ending.clear()
        self.check()

    def check(self):
        """Fails if a request has failed, or a byte was wrong."""
        if self.failures:
            raise self.failures[0]

    def requests(self):
        self.check()
        return sum(self.counts)

    def goes_on(self, seconds, least=1):
        """Lets it work for so long, and fails if fewer than `least` requests are answered meanwhile."""
        before = self.requests()
        time.sleep(seconds)
        answered = self.requests() - before
        assert answered >= least, f"{answered} requests were answered in {seconds} s"
        return answered

    def _join(self):
        for thread in self._threads:
            thread.join(STOP_SECONDS_MAX)
            assert not thread.is_alive(), f"a request is not answered in {STOP_SECONDS_MAX} s"
        self._threads = []

    def _run(self, number):
        try:
            with self.begin(number) as client:
                while not self._ending.is_set():
                    self.work(number, client)
                    self.counts[number] += 1
        except Exception as failure:
            self.failures.append(failure)
