# Drives a command on a pseudo-terminal, as a person at a keyboard would.
# usage: terminal.py '<JSON: {"argv": [...], "cwd": "...", "steps": [...], "timeout": s}>'
# steps: {"expect": "text"} wait for output; {"send": "\u0003"} type; {"signal": "SIGTERM"} to the process; {"pause": s}; {"hangup": true};
# {"resize": [rows, columns]}
# Prints JSON: {"output": "...", "code": n or null, "signal": n or null, "seconds": s after the last step, "failed": "...",
# "echo": does the terminal show what is typed, at the end}
import fcntl, json, os, pty, select, signal, struct, sys, termios, time

plan = json.loads(sys.argv[1])
pid, fd = pty.fork()
if pid == 0:
    os.chdir(plan["cwd"])
    os.execvpe(plan["argv"][0], plan["argv"], os.environ)

def resize(rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


resize(24, 100)
deadline = time.monotonic() + plan.get("timeout", 20)
output = b""
seen = 0
failed = None
open_ = True


def pump(wait):
    """Takes output for at most `wait` seconds; False when the terminal is closed."""
    global output, open_
    if not open_:
        time.sleep(min(wait, 0.02))
        return False
    ready, _, _ = select.select([fd], [], [], wait)
    if ready:
        try:
            chunk = os.read(fd, 65536)
        except OSError:
            chunk = b""
        if chunk == b"":
            open_ = False
        output += chunk
    return open_


for step in plan["steps"]:
    if "expect" in step:
        wanted = step["expect"].encode()
        while wanted not in output[seen:]:
            if time.monotonic() > deadline or not pump(0.05):
                failed = "never saw " + step["expect"]
                break
        if failed:
            break
        seen = output.index(wanted, seen) + len(wanted)
    elif "send" in step:
        os.write(fd, step["send"].encode())
    elif "signal" in step:
        os.kill(pid, getattr(signal, step["signal"]))
    elif "pause" in step:
        until = time.monotonic() + step["pause"]
        while time.monotonic() < until:
            pump(0.02)
    elif "resize" in step:
        resize(*step["resize"])
    elif "hangup" in step:
        os.close(fd)
        open_ = False

last = time.monotonic()
code = killed = None
while True:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        if os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
        else:
            killed = os.WTERMSIG(status)
        break
    if time.monotonic() > deadline:
        failed = failed or "did not end in time"
        os.kill(pid, signal.SIGKILL)
    pump(0.05)
seconds = time.monotonic() - last
try:
    echo = bool(termios.tcgetattr(fd)[3] & termios.ECHO)
except (OSError, termios.error):
    echo = None
while open_ and pump(0.1):
    pass
print(json.dumps({"output": output.decode("utf8", "replace"), "code": code, "signal": killed, "seconds": seconds, "failed": failed, "echo": echo}))
