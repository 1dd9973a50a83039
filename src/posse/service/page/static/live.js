// Doing something again and again while the page is seen: at its pace, slower after failures, at once when asked.
// What is done may say after how many seconds it wants to be done again.

const SLOWEST = 5; // seconds between tries when the service does not answer

export function loop(work, seconds, report) {
  let timer = 0;
  let current = null;
  let failures = 0;
  let running = false;

  async function turn() {
    clearTimeout(timer);
    current?.abort();
    if (!running || document.hidden) return;
    const mine = new AbortController();
    current = mine;
    let wait = seconds;
    try {
      wait = (await work(mine.signal)) ?? seconds;
      if (mine.signal.aborted) return;
      failures = 0;
      report(null);
    } catch (error) {
      if (mine.signal.aborted) return;
      failures += 1;
      wait = Math.max(error.retryAfter ?? 0, Math.min(2 ** (failures - 1), SLOWEST));
      report(error);
    }
    if (running && current === mine) timer = setTimeout(turn, wait * 1000);
  }

  function seen() {
    if (document.hidden) clearTimeout(timer);
    else turn();
  }

  return {
    start() {
      running = true;
      document.addEventListener("visibilitychange", seen);
      window.addEventListener("online", turn);
      turn();
    },
    stop() {
      running = false;
      clearTimeout(timer);
      current?.abort();
      document.removeEventListener("visibilitychange", seen);
      window.removeEventListener("online", turn);
      if (failures) report(null);
    },
    soon: turn,
  };
}
