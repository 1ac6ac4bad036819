@rem npm's scripts begin with exec, so that signals reach node on Unix. This gives the word the same meaning in cmd.exe.
@%*
