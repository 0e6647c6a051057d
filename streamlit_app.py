"""The lab. Start it with `streamlit run streamlit_app.py`.

Streamlit uses this file in two roles: it imports it once, for the server that `app` describes, and
it executes it as `__main__` whenever a visitor's page is drawn.
"""

import streamlit as st

if __name__ == "__main__":
    from core.ui import shell

    shell.run()
else:
    from core.ui import server

    app = st.App(
        __file__,
        lifespan=server.lifespan,
        middleware=server.middleware(),
        routes=server.routes(),
        on_script_error=server.told,
    )
