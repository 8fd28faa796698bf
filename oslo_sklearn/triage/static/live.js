"use strict";
// The live loop: corrections go to the server, new decisions come back and replace the old ones.
(function (T) {
  const { $ } = T;
  const POLL = 400; // milliseconds between looks while the server is at work
  const RETRY = 3000;

  T.startLive = function () {
    if (!T.isLive) return;
    const waiting = new Map(); // row -> label that the server does not have yet
    let revision = T.model.data.revision;
    let isBusy = false;
    say("live");

    T.send = function (rows) {
      for (const row of rows) waiting.set(row, T.model.said(row));
      work();
    };

    // One conversation at a time: send, then look until the server has caught up.
    async function work() {
      if (isBusy) return;
      isBusy = true;
      try {
        let state = null;
        do {
          if (waiting.size) {
            const batch = [...waiting];
            state = await post("corrections", batch);
            for (const [row, label] of batch) if (waiting.get(row) === label) waiting.delete(row);
          } else {
            await pause(POLL);
            state = await get("state");
          }
          say(state.error ? `cannot decide: ${state.error}` : state.busy ? "deciding again…" : "live", Boolean(state.error));
          if (state.revision !== revision && !waiting.size) {
            const data = await get("data");
            revision = data.revision;
            T.update(data);
          }
        } while (waiting.size || state.busy);
      } catch (error) {
        say("not connected: corrections are kept in this browser", true);
        setTimeout(work, RETRY);
      } finally {
        isBusy = false;
      }
    }

    // What an earlier visit could not send.
    if (T.model.pending.size) T.send([...T.model.pending.keys()]);
  };

  const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

  async function get(name) {
    return answer(await fetch(`api/${name}`, { cache: "no-store" }));
  }

  async function post(name, body) {
    const headers = { "Content-Type": "application/json" };
    return answer(await fetch(`api/${name}`, { method: "POST", headers, body: JSON.stringify(body) }));
  }

  function answer(response) {
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.json();
  }

  function say(text, isBad = false) {
    $("live").hidden = false;
    $("live").textContent = text;
    $("live").classList.toggle("bad", isBad);
  }
})(window.Triage);
